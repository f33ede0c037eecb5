import { readFileSync } from 'node:fs';
import { isAbsolute } from 'node:path';

const MAX_BYTES = 65_536;

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'there is none',
  EACCES: 'it may not be read',
  EPERM: 'it may not be read',
  EISDIR: 'it is a directory',
  ENOTDIR: 'there is none',
  ELOOP: 'its links go in a circle',
};

/**
 * Reads a secret from a file as container platforms mount them, without a byte order mark and trailing newlines.
 * @throws Error with a message for a person if the path is not absolute, or the file is missing, unreadable, empty or
 *   no text.
 */
export function readSecretFile(path: string): string {
  if (!isAbsolute(path)) throw new Error(`expected an absolute path after file:, got ${JSON.stringify(path)}`);
  const bytes = bytesOf(path);
  if (bytes.length > MAX_BYTES) throw new Error(`expected a secret of at most 64 KiB in the file ${path}`);
  const secret = decode(bytes, path).replace(/[\r\n]+$/, '');
  if (secret === '') throw new Error(`expected a secret in the file ${path}, got nothing (it is empty)`);
  return secret;
}

function bytesOf(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown';
    throw new Error(`expected a readable file ${path}, got none (${REASONS[code] ?? code})`, { cause: error });
  }
}

function decode(bytes: Buffer, path: string): string {
  try {
    // `TextDecoder` drops the byte order mark.
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    throw new Error(`expected UTF-8 text in the file ${path}`, { cause: error });
  }
}
