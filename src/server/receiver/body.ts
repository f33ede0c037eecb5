// Bodies of requests: which are accepted, reading them within limits, and the JSON in them.
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { brotliDecompressSync, gunzipSync, inflateSync } from 'node:zlib';
import type { SignatureScheme } from '../../config/profile/signature-scheme.ts';
import { echoChallenge } from '../signature/challenges.ts';

/** A body, or why there is none; its memory counts until it is disposed. The rest of such a request is unread. */
export interface ReceivedBody extends Disposable {
  readonly body: Buffer | 'too_large' | 'overloaded' | 'gone';
  /** Counts what was unpacked from it as well. */
  count(bytes: number): void;
}

/** A body that is being received, or held until its request is answered. */
interface HeldBody {
  bytes: number;
  /** Stops receiving it; null once it is complete. */
  cut: (() => void) | null;
}

const MIN_BUFFER_BYTES = 2_048;

/** Reads bodies, and limits the memory that those of all connections take together. */
export class BodyBudget {
  readonly #maxBytes: number;
  readonly #bodies = new Set<HeldBody>();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Reads a body of at most `maxBytes`. It is `gone` if its sender has closed the connection. */
  async read(request: IncomingMessage, maxBytes: number): Promise<ReceivedBody> {
    const { promise, resolve } = Promise.withResolvers<ReceivedBody['body']>();
    const held: HeldBody = { bytes: 0, cut: () => resolve('overloaded') };
    let buffer = Buffer.alloc(0);
    /** Copies into one growing buffer: a body that comes byte by byte must not cost a buffer for each. */
    const onData = (chunk: Buffer): void => {
      const { bytes: length } = held;
      const needed = length + chunk.length;
      if (needed > maxBytes) return resolve('too_large');
      if (needed > buffer.length) {
        const grown = Buffer.allocUnsafe(Math.min(maxBytes, Math.max(MIN_BUFFER_BYTES, needed * 2)));
        buffer.copy(grown, 0, 0, length);
        buffer = grown;
      }
      chunk.copy(buffer, length);
      this.#add(held, chunk.length);
    };
    const onEnd = (): void => resolve(buffer.subarray(0, held.bytes));
    const onClose = (): void => resolve('gone');
    // `close` follows an `error`.
    request.on('error', () => undefined);
    request.on('data', onData).on('end', onEnd).on('close', onClose);
    const body = await promise;
    request.off('data', onData).off('end', onEnd).off('close', onClose).pause();
    held.cut = null;
    return { body, count: (bytes) => this.#add(held, bytes), [Symbol.dispose]: () => this.#release(held) };
  }

  /** If all bodies are too large together, cuts the largest one that is being received: deliveries are small. */
  #add(held: HeldBody, bytes: number): void {
    this.#bodies.add(held);
    held.bytes += bytes;
    this.#bytes += bytes;
    if (this.#bytes <= this.#maxBytes) return;
    const receiving = [...this.#bodies].filter(({ cut }) => cut !== null);
    receiving.toSorted((a, b) => b.bytes - a.bytes)[0]?.cut?.();
  }

  #release(held: HeldBody): void {
    if (this.#bodies.delete(held)) this.#bytes -= held.bytes;
  }
}

const FORM_TYPE = 'application/x-www-form-urlencoded';

/** The media type of a `Content-Type`, without its parameters. */
function mediaTypeIn(contentType = ''): string {
  const [type = ''] = contentType.split(';', 1);
  return type.trim().toLowerCase();
}

const DECODERS = new Map<string, (body: Buffer, options: { maxOutputLength: number }) => Buffer>([
  ['identity', (body) => body],
  ['gzip', gunzipSync],
  ['x-gzip', gunzipSync],
  ['deflate', inflateSync],
  ['br', brotliDecompressSync],
]);

/** Which requests a source accepts, before their bodies are read. */
export interface AcceptedRequests {
  methods: ReadonlySet<string>;
  accepts: (mediaType: string) => boolean;
  maxBody: number;
}

const JSON_TYPE = /^application\/(?:json|[\w.!#$&^-]{1,80}\+json)$/;

/**
 * Accepts JSON; forms if the scheme signs the body; plain text if the sender verifies the address with it.
 * Browsers send the latter two to any address without a preflight request, but cannot sign them.
 */
export function acceptedRequests(scheme: SignatureScheme, maxBody: number): AcceptedRequests {
  const echo = echoChallenge(scheme);
  const acceptsForms = scheme.signed.length > 0;
  const acceptsText = echo?.method.includes('POST') === true && echo.echo.from === 'query';
  return {
    methods: new Set(['POST', ...(echo?.method ?? [])]),
    accepts: (type) =>
      JSON_TYPE.test(type) || (type === FORM_TYPE && acceptsForms) || (type === 'text/plain' && acceptsText),
    maxBody,
  };
}

/** Returns why a request is refused before its body is read; null if it is not. */
export function refusalBeforeBody(
  { methods, accepts, maxBody }: AcceptedRequests,
  method: string,
  headers: IncomingHttpHeaders,
): 'method' | 'content_type' | 'content_encoding' | 'too_large' | null {
  if (!methods.has(method)) return 'method';
  if (method !== 'GET') {
    if (!accepts(mediaTypeIn(headers['content-type']))) return 'content_type';
    if (!DECODERS.has(headers['content-encoding'] ?? 'identity')) return 'content_encoding';
  }
  return Number(headers['content-length'] ?? 0) > maxBody ? 'too_large' : null;
}

/**
 * Returns the JSON in a verified body: decompressed, and out of the field `payload` of a form, as GitHub sends it; or the
 * reason if there is none.
 */
export function jsonIn(
  body: Buffer,
  headers: IncomingHttpHeaders,
  { maxBody }: AcceptedRequests,
): Buffer | 'too_large' | 'content_encoding' | 'content_type' {
  let json = body;
  try {
    json = DECODERS.get(headers['content-encoding'] ?? 'identity')?.(body, { maxOutputLength: maxBody }) ?? body;
  } catch (error) {
    const isLarge = error instanceof Error && 'code' in error && error.code === 'ERR_BUFFER_TOO_LARGE';
    return isLarge ? 'too_large' : 'content_encoding';
  }
  if (mediaTypeIn(headers['content-type']) !== FORM_TYPE) return json;
  const payload = new URLSearchParams(json.toString()).get('payload');
  return payload === null ? 'content_type' : Buffer.from(payload);
}
