import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { withEnvFile } from '../../src/settings/env-file.ts';

function folder(): string {
  const made = mkdtempSync(path.join(tmpdir(), 'content-sync-env-'));
  onTestFinished(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

describe('.env', () => {
  it('adds its variables, and leaves those that are set as they are', () => {
    const cwd = folder();
    writeFileSync(path.join(cwd, '.env'), 'A=1\nB=\'two words\' # a comment\nexport C="x\\ny"\n');
    expect(withEnvFile({ A: 'outside' }, cwd)).toEqual({ A: 'outside', B: 'two words', C: 'x\ny' });
  });

  it('may be missing, or a folder of that name', () => {
    const cwd = folder();
    expect(withEnvFile({ A: '1' }, cwd)).toEqual({ A: '1' });
    mkdirSync(path.join(cwd, '.env'));
    expect(withEnvFile({ A: '1' }, cwd)).toEqual({ A: '1' });
  });
});
