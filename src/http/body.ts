import { promisify } from 'node:util';
import { brotliDecompress, gunzip, inflate, inflateRaw, zstdDecompress } from 'node:zlib';
import type { Readable } from 'node:stream';
import { SyncError } from '../model/errors.ts';

/** Output is made in pieces of this size; the cap is checked after each. */
const CHUNK = 262_144;
const MAX_ENCODINGS = 2;

type Decompress = (bytes: Uint8Array, options: { maxOutputLength: number; chunkSize: number }) => Promise<Buffer>;

const brotli: Decompress = promisify(brotliDecompress);
const gzip: Decompress = promisify(gunzip);
const zlib: Decompress = promisify(inflate);
const rawDeflate: Decompress = promisify(inflateRaw);
const zstd: Decompress = promisify(zstdDecompress);

/** `deflate` means zlib in the standard and raw deflate on some servers; the first byte tells. */
const deflate: Decompress = (bytes, options) =>
  ((bytes[0] ?? 0) & 0x0f) === 8 ? zlib(bytes, options) : rawDeflate(bytes, options);

const DECOMPRESS: ReadonlyMap<string, Decompress> = new Map([
  ['gzip', gzip],
  ['x-gzip', gzip],
  ['deflate', deflate],
  ['br', brotli],
  ['zstd', zstd],
]);

/** What is asked for in Accept-Encoding: `deflate` is taken when it comes, but nobody is invited to it. */
export const ACCEPTED_ENCODINGS = 'gzip, br, zstd';

/**
 * Reads a body to its end. `count` hears of every chunk as it arrives. Throws `SyncError` `body_too_large` above the
 * cap and whatever the stream fails with; a cut-off body is an error, never a short body.
 */
export function readWhole(body: Readable, cap: number, count: (bytes: number) => void): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    body.on('data', (chunk: Buffer) => {
      size += chunk.length;
      count(chunk.length);
      if (size > cap) body.destroy(tooLarge(cap));
      else chunks.push(chunk);
    });
    body.on('error', reject);
    body.on('end', () =>
      resolve(chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks, size)),
    );
  });
}

/**
 * Undoes Content-Encoding, at most two deep. The cap counts decompressed bytes, so a small bomb stays small.
 * Throws `SyncError`: `body_too_large`, `bad_encoding` (cut off, or not what the header says), `unsupported_encoding`.
 */
export async function decompress(bytes: Buffer, encoding: string, cap: number): Promise<Buffer> {
  const names = encoding
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== '' && name !== 'identity');
  if (names.length > MAX_ENCODINGS) throw unsupported(`${names.length} content encodings`);
  let rest = bytes;
  for (const name of names.toReversed()) rest = await decompressOnce(rest, name, cap);
  return rest;
}

async function decompressOnce(bytes: Buffer, name: string, cap: number): Promise<Buffer> {
  const run = DECOMPRESS.get(name);
  if (run === undefined) throw unsupported('a content encoding that was not asked for');
  try {
    return await run(bytes, { maxOutputLength: cap, chunkSize: CHUNK });
  } catch (cause) {
    if (cause instanceof RangeError) throw tooLarge(cap);
    throw new SyncError('bad_encoding', `the body is not complete, valid ${name}`, { recovery: 'retry', cause });
  }
}

function tooLarge(cap: number): SyncError {
  return new SyncError('body_too_large', `the body is larger than ${cap} bytes`, { recovery: 'stop' });
}

function unsupported(what: string): SyncError {
  return new SyncError('unsupported_encoding', `the body has ${what}`, { recovery: 'stop' });
}
