// Makes what a service sends safe to use. `readBody` reads and decompresses a body up to a limit, because a few kilobytes
// may unpack to gigabytes. `shortenText`, `shortenMasked` and `describeUrl` prepare texts and URLs for messages: short, on
// one line, without secrets.
import { pipeline, Readable, type Transform } from 'node:stream';
import {
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
} from 'node:zlib';
import { SyncError } from '../../model/errors.ts';
import { isSecretName, visibleText } from '../../model/visible-text.ts';
import { scrub } from '../../observe/scrub.ts';
import type { MemoryReservation } from './answer-memory.ts';

/** A response whose body has not been read yet. */
export interface StreamedAnswer {
  status: number;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  body: Readable;
  /** Counts the bytes of each chunk as received. */
  count: (bytes: number) => void;
}

/** Consumes bodies as they arrive, so that they are not kept in memory. */
export interface BodySink {
  /** Returns the headers of the next attempt, for any origin. */
  headers(): Readonly<Record<string, string>>;
  /** Reads a body to its end, or destroys it. Throws only the error of the stream. */
  receive(answer: StreamedAnswer): Promise<void>;
}

/** The size limit is checked after each chunk of output. */
const CHUNK_BYTES = 262_144;
const MAX_ENCODINGS = 2;
/** The window of a zstd stream, as a power of two: the maximum that RFC 9659 allows in HTTP. */
const ZSTD_WINDOW_LOG = 23;

/** Creates the decompressor of an encoding, which may depend on the first bytes. */
type CreateDecompressor = (bytes: Uint8Array) => Transform;

const options = { chunkSize: CHUNK_BYTES };
const gzip: CreateDecompressor = () => createGunzip(options);

/** `deflate` means zlib in the standard and raw deflate on some servers; the first byte distinguishes them. */
const deflate: CreateDecompressor = (bytes) =>
  ((bytes[0] ?? 0) & 0x0f) === 8 ? createInflate(options) : createInflateRaw(options);

const DECOMPRESSORS: ReadonlyMap<string, CreateDecompressor> = new Map([
  ['gzip', gzip],
  ['x-gzip', gzip],
  ['deflate', deflate],
  ['br', () => createBrotliDecompress(options)],
  ['zstd', () => createZstdDecompress({ ...options, params: { [constants.ZSTD_d_windowLogMax]: ZSTD_WINDOW_LOG } })],
]);

/** Sent as Accept-Encoding: `deflate` is accepted but not requested. */
export const ACCEPTED_ENCODINGS = 'gzip, br, zstd';

/**
 * Reads and decompresses a body of at most `cap` bytes, whose memory it adds to `reservation`. `count` gets the length of
 * each chunk as received. Throws `body_too_large`, and the errors of `decompress` and of the reservation.
 */
export async function readBody(
  body: Readable,
  encoding: string,
  { cap, reservation }: { cap: number; reservation: MemoryReservation },
  count: (bytes: number) => void,
): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of decompress(body, encoding, count)) {
    size += chunk.length;
    if (size > cap) {
      throw new SyncError('body_too_large', `the body is larger than ${cap} bytes`, { recovery: 'stop' });
    }
    reservation.grow(chunk.length);
    chunks.push(chunk);
  }
  return chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks, size);
}

/**
 * Yields the decompressed chunks of a body with at most two encodings; the caller limits its size. Throws `SyncError`:
 * `bad_encoding` (truncated or invalid), `unsupported_encoding`; and the error of the stream.
 */
export async function* decompress(
  body: Readable,
  encoding: string,
  count: (bytes: number) => void,
): AsyncGenerator<Buffer> {
  let chunks = countChunks(body, count);
  for (const [name, create] of decompressorsFor(encoding).toReversed()) chunks = decompressOne(chunks, name, create);
  yield* chunks;
}

async function* countChunks(body: Readable, count: (bytes: number) => void): AsyncGenerator<Buffer> {
  for await (const chunk of body) {
    if (!Buffer.isBuffer(chunk)) throw new TypeError('a body that is text already');
    count(chunk.length);
    yield chunk;
  }
}

async function* decompressOne(
  chunks: AsyncGenerator<Buffer>,
  name: string,
  create: CreateDecompressor,
): AsyncGenerator<Buffer> {
  const first = await chunks.next();
  if (first.done === true) return;
  // An error of the connection is thrown as it is; any other one means that the compressed data is damaged.
  const source = { error: undefined as unknown };
  const compressed = async function* (): AsyncGenerator<Buffer> {
    try {
      yield first.value;
      yield* chunks;
    } catch (error) {
      source.error = error;
      throw error;
    }
  };
  const decompressor = create(first.value);
  // The loop below gets the error, so that this callback need not.
  pipeline(Readable.from(compressed()), decompressor, () => undefined);
  try {
    for await (const chunk of decompressor) if (Buffer.isBuffer(chunk)) yield chunk;
  } catch (cause) {
    if (cause === source.error) throw cause;
    throw new SyncError('bad_encoding', `the body is not complete, valid ${name}`, { recovery: 'retry', cause });
  }
}

/** Returns the decompressors in the order in which the encodings were applied. */
function decompressorsFor(encoding: string): [string, CreateDecompressor][] {
  const names = encoding
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== '' && name !== 'identity');
  if (names.length > MAX_ENCODINGS) throw unsupported(`${names.length} content encodings`);
  return names.map((name) => {
    const create = DECOMPRESSORS.get(name);
    if (create === undefined) throw unsupported('a content encoding that was not asked for');
    return [name, create];
  });
}

function unsupported(what: string): SyncError {
  return new SyncError('unsupported_encoding', `the body has ${what}`, { recovery: 'stop' });
}

const SHORT_LENGTH = 200;
const QUERY_VALUE_LENGTH = 60;

/** Makes external text safe for a message: one line, control characters escaped, at most 200 characters. */
export function shortenText(text: string, length: number = SHORT_LENGTH): string {
  const clean = visibleText(text.slice(0, length + 1).toWellFormed());
  return clean.length > length ? `${clean.slice(0, length - 1)}…` : clean;
}

/** Only the first characters of a text are searched for secrets, which takes time. */
const SEARCHED_LENGTH = 4_096;

/** Like `shortenText`, without secrets. They are removed before the text is cut, because half a secret is not found. */
export function shortenMasked(text: string, secrets: readonly string[], length?: number): string {
  const searched = text.length > SEARCHED_LENGTH ? `${text.slice(0, SEARCHED_LENGTH)}…` : text;
  return shortenText(scrub(searched, secrets), length);
}

/** Short numbers, times and booleans: they cannot be credentials. */
const HARMLESS_VALUE = /^(?:-?\d{1,9}|true|false|\d{4}-\d\d-\d\d(?:[T ][\d:.]+(?:Z|[+-][\d:]+)?)?)$/;

/** Decides which query values a message may show. */
export interface QueryVisibility {
  /** Parameters whose values are shown: those for the page or the time, and others of the profile without a secret. */
  shown: ReadonlySet<string>;
  /** Parameters of the profile whose values are secret. */
  hidden: ReadonlySet<string>;
}

/**
 * Makes a URL safe for a message: without credentials and fragment, and only with query values that cannot be secret. The
 * caller removes the secrets of the settings from the whole message.
 */
export function describeUrl(url: URL, rules: QueryVisibility): string {
  const query = [...url.searchParams].map(
    ([name, value]) =>
      `${shortenText(name)}=${isShown(name, value, rules) ? shortenText(value, QUERY_VALUE_LENGTH) : '***'}`,
  );
  return `${url.origin}${shortenText(url.pathname)}${query.length > 0 ? `?${query.join('&')}` : ''}`;
}

function isShown(name: string, value: string, { shown, hidden }: QueryVisibility): boolean {
  return shown.has(name) || (!hidden.has(name) && !isSecretName(name) && HARMLESS_VALUE.test(value));
}
