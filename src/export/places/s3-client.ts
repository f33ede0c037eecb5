import { createHash } from 'node:crypto';
import { request } from 'undici';
import type { Clock } from '../../model/clock.ts';
import { ConfigError, messageOf, SyncError } from '../../model/errors.ts';

/** Where a bucket is, and who asks. */
export interface S3Access {
  bucket: string;
  region: string;
  /** Of a service that is compatible; null for Amazon's own. */
  endpoint: string | null;
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken: string | undefined;
}

export interface S3Request {
  method: 'GET' | 'PUT' | 'POST' | 'DELETE';
  /** The object; the bucket itself if absent. */
  key?: string;
  query?: Readonly<Record<string, string>>;
  headers?: Readonly<Record<string, string>>;
  body?: Uint8Array;
  /** Answers, besides 2xx, that the caller understands. */
  accepted?: readonly number[];
}

export interface S3Answer {
  status: number;
  /** Of the object, or of the part. */
  etag: string;
  text: string;
}

export type S3Client = (asked: S3Request) => Promise<S3Answer>;

const TRIES = 6;
const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 20_000;
const ANSWER_MS = 120_000;
const RETRIED = new Set([408, 429, 500, 502, 503, 504]);

/**
 * Signed requests to one bucket. What the service cannot do now is asked again, with growing pauses or after the one that
 * it names. Throws `SyncError`, and `ConfigError` if the bucket cannot be used.
 */
export function s3Client(access: S3Access, { clock, signal }: { clock: Clock; signal: AbortSignal }): S3Client {
  return async (asked) => {
    for (let tries = 1; ; tries += 1) {
      const answer = await attempt(access, asked, signal);
      const isLast = tries === TRIES || signal.aborted;
      if (!(answer instanceof Error) && !RETRIED.has(answer.status)) return judged(access, asked, answer);
      if (isLast) throw answer instanceof Error ? unreachable(access, answer) : failed(access, asked, answer);
      const named = answer instanceof Error ? 0 : answer.retryAfterMs;
      const pause = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** tries) * (0.5 + Math.random() / 2);
      await clock.sleep(Math.max(named, pause), signal);
    }
  };
}

interface Attempted extends S3Answer {
  retryAfterMs: number;
}

async function attempt(access: S3Access, asked: S3Request, signal: AbortSignal): Promise<Attempted | Error> {
  const { method, body, headers = {} } = asked;
  const digest = createHash('sha256')
    .update(body ?? '')
    .digest('hex');
  const { AwsV4Signer } = await import('aws4fetch');
  const signer = new AwsV4Signer({
    ...access,
    sessionToken: access.sessionToken ?? '',
    service: 's3',
    method,
    url: urlOf(access, asked).href,
    headers: { ...headers, 'x-amz-content-sha256': digest },
  });
  const signed = await signer.sign();
  try {
    const answer = await request(signed.url, {
      method,
      headers: Object.fromEntries(signed.headers),
      body: body ?? null,
      headersTimeout: ANSWER_MS,
      bodyTimeout: ANSWER_MS,
      signal,
    });
    const text = await answer.body.text();
    const retryAfterMs = 1_000 * (Number(answer.headers['retry-after']) || 0);
    return { status: answer.statusCode, etag: String(answer.headers['etag'] ?? ''), text, retryAfterMs };
  } catch (error) {
    signal.throwIfAborted();
    return error instanceof Error ? error : new Error(messageOf(error));
  }
}

/** Amazon's own by the bucket's name; of others, and where a dot would break the certificate, by its path. */
function urlOf({ bucket, region, endpoint }: S3Access, { key, query = {} }: S3Request): URL {
  const isPath = endpoint !== null || bucket.includes('.');
  const host =
    endpoint ?? (isPath ? `https://s3.${region}.amazonaws.com` : `https://${bucket}.s3.${region}.amazonaws.com`);
  const url = new URL(host);
  const place = isPath ? `/${bucket}` : '';
  const path = key === undefined ? '' : `/${key.split('/').map(encoded).join('/')}`;
  url.pathname = `${url.pathname.replace(/\/$/, '')}${place}${path}`;
  url.search = Object.entries(query)
    .map(([name, value]) => `${encoded(name)}=${encoded(value)}`)
    .join('&');
  return url;
}

function encoded(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`);
}

function judged(access: S3Access, asked: S3Request, answer: S3Answer): S3Answer {
  const { status } = answer;
  if ((status >= 200 && status < 300) || asked.accepted?.includes(status) === true) return answer;
  throw failed(access, asked, answer);
}

/** Answers with their meaning for the operator; the first row that matches counts. */
const REFUSALS: readonly { matches: RegExp; code: string; hint: string }[] = [
  {
    matches: /NoSuchBucket/,
    code: 'export_bucket_missing',
    hint: 'make the bucket, or check its name, AWS_REGION and AWS_ENDPOINT_URL',
  },
  {
    matches: /PermanentRedirect|AuthorizationHeaderMalformed|IllegalLocation|^301/,
    code: 'export_refused',
    hint: 'the bucket is in another region: set AWS_REGION to it',
  },
  {
    matches: /^40[13]/,
    code: 'export_refused',
    hint: 'check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, and that they may list, read, write and delete below the prefix',
  },
];

function failed(access: S3Access, { method, key }: S3Request, { status, text }: S3Answer): SyncError {
  const code = elementOf(text, 'Code') ?? '';
  const said = `${status}${code === '' ? '' : ` ${code}`}`;
  const message = `${shownBucket(access)}: ${method}${key === undefined ? '' : ` ${key}`}: ${said}`;
  const refusal = REFUSALS.find(({ matches }) => matches.test(`${status} ${code}`));
  if (refusal !== undefined) return new ConfigError(refusal.code, message, { hint: refusal.hint });
  return new SyncError('export_failed', message, {
    recovery: 'stop',
    hint: 'run the same command again: what the manifest lists is still whole',
  });
}

function unreachable(access: S3Access, cause: Error): SyncError {
  return new SyncError('export_unreachable', `${shownBucket(access)}: ${messageOf(cause)}`, {
    recovery: 'stop',
    hint: 'check AWS_ENDPOINT_URL, AWS_REGION and the network, then run the same command again: what the manifest lists is still whole',
    cause,
  });
}

function shownBucket({ bucket, endpoint }: S3Access): string {
  return `s3://${bucket}${endpoint === null ? '' : ` at ${new URL(endpoint).host}`}`;
}

/** The text of the first element of that name in an answer. */
export function elementOf(xml: string, name: string): string | null {
  return elementsOf(xml, name)[0] ?? null;
}

/** All of them; what they hold is text, or further elements. */
export function elementsOf(xml: string, name: string): string[] {
  return [...xml.matchAll(new RegExp(`<${name}>([^]*?)</${name}>`, 'g'))].map(([, text = '']) => unescaped(text));
}

const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

function unescaped(text: string): string {
  if (text.includes('<')) return text;
  return text.replace(/&(?:#x([0-9a-f]+)|#(\d+)|(\w+));/gi, (whole, hex?: string, digits?: string, name?: string) => {
    if (name !== undefined) return ENTITIES[name] ?? whole;
    return String.fromCodePoint(hex === undefined ? Number(digits) : Number.parseInt(hex, 16));
  });
}
