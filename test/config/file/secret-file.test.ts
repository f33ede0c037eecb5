import { chmodSync, mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readSecretFile } from '../../../src/config/file/interpolate.ts';
import { inFolder } from '../in-folder.ts';

describe('F214 a secret in a file', () => {
  it.each([
    ['is read as it is', 'abc', 'abc'],
    ['loses its trailing newline', 'abc\n', 'abc'],
    ['loses a trailing CR LF', 'abc\r\n', 'abc'],
    ['loses its byte order mark', '\ufeffabc\n', 'abc'],
    ['keeps spaces, which the credential then refuses', ' abc ', ' abc '],
  ])('%s', (_, content, secret) => {
    inFolder({ s: content }, (folder) => expect(readSecretFile(join(folder, 's'))).toBe(secret));
  });

  it('is read through links as Kubernetes mounts them, before and after they are swapped', () => {
    inFolder({ '..v1/key': 'old\n', '..v2/key': 'new\n' }, (folder) => {
      symlinkSync('..v1', join(folder, '..data'));
      symlinkSync('..data/key', join(folder, 'key'));
      expect(readSecretFile(join(folder, 'key'))).toBe('old');
      symlinkSync('..v2', join(folder, '..next'));
      renameSync(join(folder, '..next'), join(folder, '..data'));
      expect(readSecretFile(join(folder, 'key'))).toBe('new');
    });
  });

  it.each([
    ['is missing', (): void => {}, /a readable file .*there is none/],
    ['is a directory', (path: string): void => mkdirSync(path), /it is a directory/],
    ['is empty', (path: string): void => writeFileSync(path, ''), /got nothing \(it is empty\)/],
    ['holds only a newline', (path: string): void => writeFileSync(path, '\n'), /it is empty/],
    ['holds only a byte order mark', (path: string): void => writeFileSync(path, '\ufeff'), /it is empty/],
    ['is no text', (path: string): void => writeFileSync(path, Uint8Array.of(0xff, 0xfe)), /UTF-8/],
    ['is too long', (path: string): void => writeFileSync(path, 'x'.repeat(70_000)), /at most 64 KiB/],
    ['links to itself', (path: string): void => symlinkSync(path, path), /circle/],
  ])('is refused when it %s', (_, make, expected) => {
    inFolder({}, (folder) => {
      const path = join(folder, 's');
      make(path);
      expect(() => readSecretFile(path)).toThrow(expected);
    });
  });

  it.skipIf(process.getuid?.() === 0)('is refused when it may not be read', () => {
    inFolder({ s: 'abc' }, (folder) => {
      chmodSync(join(folder, 's'), 0);
      expect(() => readSecretFile(join(folder, 's'))).toThrow(/may not be read/);
    });
  });

  it('is refused by a relative path', () => {
    expect(() => readSecretFile('s')).toThrow(/an absolute path/);
  });
});
