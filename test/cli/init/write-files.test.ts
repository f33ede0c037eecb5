import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseEnv } from 'node:util';
import { describe, expect, it, onTestFinished } from 'vitest';
import { addVariables } from '../../../src/cli/init.ts';

function written(secret: string, before?: string): { text: string; mode: number } {
  const cwd = mkdtempSync(path.join(tmpdir(), 'content-sync-files-'));
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }));
  const env = path.join(cwd, '.env');
  if (before !== undefined) writeFileSync(env, before);
  addVariables(env, { KEY: secret });
  return { text: readFileSync(env, 'utf8'), mode: statSync(env).mode & 0o777 };
}

describe('the secret in .env', () => {
  it.for(['plain-1', 'two words', 'a#b', `it's`, 'say "x"', `' and "`, 'a=b$c'])(
    '%j is read back as it is',
    (secret) => {
      expect(parseEnv(written(secret).text)).toEqual({ KEY: secret });
    },
  );

  it('is added behind what is there, for the owner only', () => {
    expect(written('x', 'OTHER=1')).toEqual({ text: 'OTHER=1\nKEY=x\n', mode: 0o600 });
  });

  it('is refused if no quotes can hold it', () => {
    expect(() => written(`' " \``)).toThrow(/cannot be written into \.env/);
  });
});
