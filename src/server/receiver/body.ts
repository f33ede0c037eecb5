// Receives the bodies of webhook requests: refuses requests that are not acceptable before their body is read, reads bodies
// within limits of memory, and returns the JSON in them. Anyone can send requests to this address, so thousands of large or
// slow ones must neither fill the memory nor keep real deliveries out.
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { brotliDecompressSync, gunzipSync, inflateSync } from 'node:zlib';
import type { SignatureScheme } from '../../config/profile/signature-scheme.ts';
import { echoChallenge } from '../signature/challenges.ts';

/** A body, or why it was not read to its end. Its memory counts until it is disposed. */
export interface WebhookBody extends Disposable {
  /** `gone`: the sender has closed the connection. */
  readonly body: Buffer | 'too_large' | 'overloaded' | 'gone';
  /** Adds the memory of what was decompressed from it. */
  count(bytes: number): void;
}

/** A body in memory: while it is received, and then until its request is answered. */
interface BufferedBody {
  bytes: number;
  /** Stops receiving it; null once it is complete. */
  refuse: (() => void) | null;
}

const MIN_BUFFER_BYTES = 2_048;

/** Reads bodies, and limits the memory that the bodies of all connections take together. */
export class BodyBudget {
  readonly #maxBytes: number;
  readonly #bodies = new Set<BufferedBody>();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Reads a body of at most `maxBytes`. */
  async read(request: IncomingMessage, maxBytes: number): Promise<WebhookBody> {
    const { promise, resolve } = Promise.withResolvers<WebhookBody['body']>();
    const buffered: BufferedBody = { bytes: 0, refuse: () => resolve('overloaded') };
    let buffer = Buffer.alloc(0);
    /** Copies each chunk into one growing buffer: a body that comes byte by byte must not cost a buffer for each. */
    const onData = (chunk: Buffer): void => {
      const { bytes: length } = buffered;
      const needed = length + chunk.length;
      if (needed > maxBytes) return resolve('too_large');
      if (needed > buffer.length) {
        const grown = Buffer.allocUnsafe(Math.min(maxBytes, Math.max(MIN_BUFFER_BYTES, needed * 2)));
        buffer.copy(grown, 0, 0, length);
        buffer = grown;
      }
      chunk.copy(buffer, length);
      this.#add(buffered, chunk.length);
    };
    const onEnd = (): void => resolve(buffer.subarray(0, buffered.bytes));
    const onClose = (): void => resolve('gone');
    // `close` follows an `error`.
    request.on('error', () => undefined);
    request.on('data', onData).on('end', onEnd).on('close', onClose);
    const body = await promise;
    request.off('data', onData).off('end', onEnd).off('close', onClose).pause();
    buffered.refuse = null;
    return { body, count: (bytes) => this.#add(buffered, bytes), [Symbol.dispose]: () => this.#release(buffered) };
  }

  /** If all bodies together are too large, refuses the largest one that is being received, because deliveries are small. */
  #add(buffered: BufferedBody, bytes: number): void {
    this.#bodies.add(buffered);
    buffered.bytes += bytes;
    this.#bytes += bytes;
    if (this.#bytes <= this.#maxBytes) return;
    const receiving = [...this.#bodies].filter(({ refuse }) => refuse !== null);
    receiving.toSorted((a, b) => b.bytes - a.bytes)[0]?.refuse?.();
  }

  #release(buffered: BufferedBody): void {
    if (this.#bodies.delete(buffered)) this.#bytes -= buffered.bytes;
  }
}

const FORM_TYPE = 'application/x-www-form-urlencoded';

/** Returns the media type of a `Content-Type`, without its parameters. */
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
 * Accepts JSON; forms only if the request is signed, because any web page can make a browser send one; plain text only if
 * the sender verifies the address of the receiver with it.
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
 * Returns the JSON in a verified body, decompressed. GitHub may send it in the field `payload` of a form. If there is no
 * JSON, returns the reason.
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
