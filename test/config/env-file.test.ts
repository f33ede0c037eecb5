import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { withEnvFile } from '../../src/config/env-file.ts';

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

  it.each([
    ['a # that belongs to a value', 'A=abc#123', 'abc#123'],
    ['a # at its beginning', 'A=#x', '#x'],
    ['a # and an apostrophe', "A=it's#1 # c", "it's#1"],
    ['a # in quotes', 'A="a # b" # c', 'a # b'],
    ['a comment after a value with a #', 'export A = a#b\t# c\r', 'a#b'],
    ['a comment alone', 'A= # c', ''],
    ['a comment with quotes', 'A=x # it\'s "c"', 'x'],
    ['several lines that look like variables', "A='\nC=d#e\n'", '\nC=d#e\n'],
    ['a byte order mark', '\uFEFFA=abc\r', 'abc'],
  ])('reads %s', (_, line, value) => {
    const cwd = folder();
    writeFileSync(path.join(cwd, '.env'), `${line}\nB=after`);
    expect(withEnvFile({}, cwd)).toEqual({ A: value, B: 'after' });
  });

  it('may be missing, or a folder of that name', () => {
    const cwd = folder();
    expect(withEnvFile({ A: '1' }, cwd)).toEqual({ A: '1' });
    mkdirSync(path.join(cwd, '.env'));
    expect(withEnvFile({ A: '1' }, cwd)).toEqual({ A: '1' });
  });
});
