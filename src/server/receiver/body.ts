import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { brotliDecompressSync, gunzipSync, inflateSync } from 'node:zlib';
import { hasToken, type SignatureScheme } from '../../config/profile/signature-scheme.ts';
import { challengeMethods } from '../signature/challenges.ts';

/** Bytes of bodies that are held in memory, over all connections. */
export interface BodyBudget {
  /** Counts `bytes` more for a body. If that is too much in all, the largest one that is being received is cut. */
  add(body: HeldBody, bytes: number): void;
  release(body: HeldBody): void;
  readonly held: number;
}

/** One body, from its first byte until its request is answered. */
export interface HeldBody {
  bytes: number;
  /** Ends its receipt; null once it is complete. */
  cut: (() => void) | null;
}

export function bodyBudget(limit: number): BodyBudget {
  const bodies = new Set<HeldBody>();
  let held = 0;
  return {
    add: (body, bytes) => {
      bodies.add(body);
      body.bytes += bytes;
      held += bytes;
      // Deliveries are small: the largest body is the likeliest not to be one.
      if (held > limit) largest(bodies)?.cut?.();
    },
    release: (body) => {
      if (bodies.delete(body)) held -= body.bytes;
    },
    get held() {
      return held;
    },
  };
}

function largest(bodies: ReadonlySet<HeldBody>): HeldBody | null {
  let found: HeldBody | null = null;
  for (const body of bodies) if (body.cut !== null && body.bytes > (found?.bytes ?? -1)) found = body;
  return found;
}

const FIRST_BYTES = 2_048;

/**
 * Reads a body of at most `limit` bytes, counted in the budget until the caller releases it. Resolves with the reason if
 * it is too large, was cut, or its sender has gone; the rest of the request is then unread.
 */
export function readBody(
  request: IncomingMessage,
  held: HeldBody,
  limit: number,
  budget: BodyBudget,
): Promise<Buffer | 'too_large' | 'overloaded' | 'gone'> {
  const { promise, resolve } = Promise.withResolvers<Buffer | 'too_large' | 'overloaded' | 'gone'>();
  let buffer = Buffer.alloc(0);
  let length = 0;

  /** Copied into one growing buffer: a body of single bytes must not cost a buffer for each. */
  const onData = (chunk: Buffer): void => {
    if (length + chunk.length > limit) return end('too_large');
    if (length + chunk.length > buffer.length) {
      const grown = Buffer.allocUnsafe(Math.min(limit, Math.max(FIRST_BYTES, (length + chunk.length) * 2)));
      buffer.copy(grown, 0, 0, length);
      buffer = grown;
    }
    chunk.copy(buffer, length);
    length += chunk.length;
    budget.add(held, chunk.length);
  };
  const onEnd = (): void => end(buffer.subarray(0, length));
  const onGone = (): void => end('gone');

  function end(result: Buffer | 'too_large' | 'overloaded' | 'gone'): void {
    request.off('data', onData).off('end', onEnd).off('close', onGone);
    request.pause();
    held.cut = null;
    resolve(result);
  }

  held.cut = () => end('overloaded');
  // `error` (the connection broke) is followed by `close`.
  request.on('error', () => undefined);
  request.on('data', onData).on('end', onEnd).on('close', onGone);
  return promise;
}

export const FORM_TYPE = 'application/x-www-form-urlencoded';

/** The media type of a `Content-Type`, without its parameters. */
export function mediaTypeIn(contentType: string | undefined): string {
  const [type = ''] = (contentType ?? '').split(';', 1);
  return type.trim().toLowerCase();
}

/** Content codings that are read. */
const DECODERS = new Map<string, (body: Buffer, options: { maxOutputLength: number }) => Buffer>([
  ['identity', (body) => body],
  ['gzip', gunzipSync],
  ['x-gzip', gunzipSync],
  ['deflate', inflateSync],
  ['br', brotliDecompressSync],
]);

/**
 * The JSON in a verified body, at most `limit` bytes: decompressed, and out of the field `payload` of a form, as GitHub
 * sends it. A scheme that signs the fields of forms has no such field. Returns the reason if there is none.
 */
export function jsonIn(
  body: Buffer,
  headers: IncomingHttpHeaders,
  { maxBody, signsFields }: Admission,
): Buffer | 'too_large' | 'content_encoding' | 'content_type' {
  let json = body;
  try {
    json = DECODERS.get(headers['content-encoding'] ?? 'identity')?.(body, { maxOutputLength: maxBody }) ?? body;
  } catch (error) {
    const isLarge = error instanceof Error && 'code' in error && error.code === 'ERR_BUFFER_TOO_LARGE';
    return isLarge ? 'too_large' : 'content_encoding';
  }
  if (signsFields || mediaTypeIn(headers['content-type']) !== FORM_TYPE) return json;
  const payload = new URLSearchParams(json.toString()).get('payload');
  return payload === null ? 'content_type' : Buffer.from(payload);
}

/** Requests that a source takes at all. */
export interface Admission {
  methods: ReadonlySet<string>;
  isTaken: (contentType: string) => boolean;
  maxBody: number;
  /** True if the scheme signs the fields of a form. */
  signsFields: boolean;
}

const JSON_TYPE = /^application\/(?:json|[\w.!#$&^-]{1,80}\+json)$/;

/**
 * JSON; forms if the scheme signs the body or its fields; plain text if the sender verifies the address with it. Browsers
 * send the latter two to any address without a preflight request, but cannot sign them.
 */
export function admissionOf(scheme: SignatureScheme, maxBody: number): Admission {
  const others = new Set<string>();
  const signsFields = hasToken(scheme.signed, 'form_sorted');
  if (signsFields || hasToken(scheme.signed, 'body', 'body_sha256')) others.add(FORM_TYPE);
  if (asksInPlainText(scheme.challenge)) others.add('text/plain');
  return {
    methods: new Set(['POST', ...challengeMethods(scheme)]),
    isTaken: (type) => JSON_TYPE.test(type) || others.has(type),
    maxBody,
    signsFields,
  };
}

function asksInPlainText(challenge: SignatureScheme['challenge']): boolean {
  if (challenge === null || typeof challenge === 'string') return challenge === 'msgraph';
  return challenge.method.includes('POST') && challenge.echo.from === 'query';
}

/** Why a request is refused before its body is read; null if it is not. */
export function refusalBeforeBody(
  { methods, isTaken, maxBody }: Admission,
  method: string,
  headers: IncomingHttpHeaders,
): 'method' | 'content_type' | 'content_encoding' | 'too_large' | null {
  if (!methods.has(method)) return 'method';
  if (method !== 'GET') {
    if (!isTaken(mediaTypeIn(headers['content-type']))) return 'content_type';
    if (!DECODERS.has(headers['content-encoding'] ?? 'identity')) return 'content_encoding';
  }
  return Number(headers['content-length'] ?? 0) > maxBody ? 'too_large' : null;
}
