import { pipeline, Readable, type Transform } from 'node:stream';
import {
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
} from 'node:zlib';
import PQueue from 'p-queue';
import { SyncError } from '../../model/errors.ts';
import type { AnswerHold } from './answer-memory.ts';

/** An answer whose body is still to come. */
export interface StreamedAnswer {
  status: number;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  body: Readable;
  /** To be called with the bytes of each chunk as received. */
  count: (bytes: number) => void;
}

/** Takes bodies as they come, so that nothing of them is kept in memory. */
export interface BodySink {
  /** Headers of the next attempt, wherever it goes. */
  headers(): Readonly<Record<string, string>>;
  /** Reads a body to its end, or destroys it. Throws what the stream fails with, and nothing else. */
  receive(answer: StreamedAnswer): Promise<void>;
}

/** Output is made in pieces of this size; the cap is checked after each. */
const CHUNK = 262_144;
const MAX_ENCODINGS = 2;
/** Bytes that a zstd stream may look back, as a power of two: what RFC 9659 allows in HTTP. */
const ZSTD_WINDOW = 23;
/** So many bodies are unpacked at once: each needs a window besides its output, and there are few cores. */
const unpacking = new PQueue({ concurrency: 2 });

/** Makes what undoes an encoding; it may look at the first bytes. */
type Unpacker = (bytes: Uint8Array) => Transform;

const options = { chunkSize: CHUNK };
const gzip: Unpacker = () => createGunzip(options);

/** `deflate` means zlib in the standard and raw deflate on some servers; the first byte tells. */
const deflate: Unpacker = (bytes) =>
  ((bytes[0] ?? 0) & 0x0f) === 8 ? createInflate(options) : createInflateRaw(options);

const UNPACKERS: ReadonlyMap<string, Unpacker> = new Map([
  ['gzip', gzip],
  ['x-gzip', gzip],
  ['deflate', deflate],
  ['br', () => createBrotliDecompress(options)],
  ['zstd', () => createZstdDecompress({ ...options, params: { [constants.ZSTD_d_windowLogMax]: ZSTD_WINDOW } })],
]);

/** Sent as Accept-Encoding: `deflate` is accepted when it comes, but not asked for. */
export const ACCEPTED_ENCODINGS = 'gzip, br, zstd';

/** How much a body may hold, and the account that its bytes are written to as they come. */
export interface BodyLimit {
  /** Bytes. */
  cap: number;
  hold: AnswerHold;
}

/**
 * Reads a body to its end and undoes its Content-Encoding, at most two deep. The cap counts decompressed bytes too, so a
 * small bomb stays small. `count` is called with the length of each chunk as it arrives. Throws `SyncError`:
 * `body_too_large`, `bad_encoding` (cut off, or not what the header says), `unsupported_encoding`, what the account
 * throws and whatever the stream fails with: a cut-off body is an error, never a short body.
 */
export async function readBody(
  body: Readable,
  encoding: string,
  limit: BodyLimit,
  count: (bytes: number) => void,
): Promise<Buffer> {
  body.on('data', (chunk: Buffer) => count(chunk.length));
  let rest = await gathered(body, limit);
  for (const [name, unpacker] of unpackersFor(encoding).toReversed()) {
    const packed = rest;
    rest = await unpacking.add(() => unpacked(unpacker(packed).end(packed), name, limit));
    // Only the output is left.
    limit.hold.resize(rest.length);
  }
  return rest;
}

/**
 * A body without its Content-Encoding, piece by piece: whoever takes them bounds how much. `count` is called with the
 * length of each chunk as it arrives. Throws `bad_encoding`, `unsupported_encoding`, and what the stream fails with.
 */
export async function* unpackedPieces(
  body: Readable,
  encoding: string,
  count: (bytes: number) => void,
): AsyncGenerator<Buffer> {
  let pieces = counted(body, count);
  for (const [name, unpacker] of unpackersFor(encoding).toReversed()) pieces = unpackedBy(pieces, name, unpacker);
  yield* pieces;
}

async function* counted(body: Readable, count: (bytes: number) => void): AsyncGenerator<Buffer> {
  for await (const chunk of body) {
    if (!Buffer.isBuffer(chunk)) throw new TypeError('a body that is text already');
    count(chunk.length);
    yield chunk;
  }
}

async function* unpackedBy(pieces: AsyncGenerator<Buffer>, name: string, unpacker: Unpacker): AsyncGenerator<Buffer> {
  const first = await pieces.next();
  if (first.done === true) return;
  const source = { error: undefined as unknown };
  const packed = async function* (): AsyncGenerator<Buffer> {
    try {
      yield first.value;
      yield* pieces;
    } catch (error) {
      source.error = error;
      throw error;
    }
  };
  const unpacked = unpacker(first.value);
  // Whoever reads the output learns what went wrong.
  pipeline(Readable.from(packed()), unpacked, () => undefined);
  try {
    for await (const chunk of unpacked) if (Buffer.isBuffer(chunk)) yield chunk;
  } catch (cause) {
    if (cause === source.error) throw cause;
    throw new SyncError('bad_encoding', `the body is not complete, valid ${name}`, { recovery: 'retry', cause });
  }
}

/** In the order in which they were applied. */
function unpackersFor(encoding: string): [string, Unpacker][] {
  const names = encoding
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== '' && name !== 'identity');
  if (names.length > MAX_ENCODINGS) throw unsupported(`${names.length} content encodings`);
  return names.map((name) => {
    const unpacker = UNPACKERS.get(name);
    if (unpacker === undefined) throw unsupported('a content encoding that was not asked for');
    return [name, unpacker];
  });
}

/** All chunks of a stream as one. */
function gathered(stream: Readable, { cap, hold }: BodyLimit): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    stream.on('data', (chunk: Buffer) => {
      size += chunk.length;
      try {
        if (size > cap) throw tooLarge(cap);
        hold.grow(chunk.length);
        chunks.push(chunk);
      } catch (error) {
        stream.destroy(error instanceof Error ? error : undefined);
      }
    });
    stream.on('error', reject);
    stream.on('end', () => {
      const [first] = chunks;
      resolve(chunks.length === 1 && first !== undefined ? first : joined(chunks, size));
      // The stream may be found by others long after its end, and its listeners with it.
      chunks.length = 0;
    });
  });
}

/** Memory of whole bodies, which they share with nobody. */
const own = new WeakSet<ArrayBufferLike>();

function joined(chunks: readonly Buffer[], size: number): Buffer {
  // Never out of a pool, in which others have their bytes too.
  const all = Buffer.allocUnsafeSlow(size);
  let at = 0;
  for (const chunk of chunks) {
    all.set(chunk, at);
    at += chunk.length;
  }
  own.add(all.buffer);
  return all;
}

/**
 * Gives back the memory of a body at once, which else takes a collection of all garbage. Whoever calls it has the last
 * of its bytes: all views of it are empty from now on. Does nothing if others may have bytes in the same memory.
 */
export function discardBody({ buffer }: Buffer): void {
  if (own.delete(buffer) && buffer instanceof ArrayBuffer) buffer.transfer(0);
}

async function unpacked(stream: Transform, name: string, limit: BodyLimit): Promise<Buffer> {
  try {
    return await gathered(stream, limit);
  } catch (cause) {
    if (cause instanceof SyncError) throw cause;
    throw new SyncError('bad_encoding', `the body is not complete, valid ${name}`, { recovery: 'retry', cause });
  }
}

function tooLarge(cap: number): SyncError {
  return new SyncError('body_too_large', `the body is larger than ${cap} bytes`, { recovery: 'stop' });
}

function unsupported(what: string): SyncError {
  return new SyncError('unsupported_encoding', `the body has ${what}`, { recovery: 'stop' });
}
