// Sends one HTTP request over undici and reads its answer once: with a deadline and a size limit, without retries and
// redirects, which `request-loop.ts` adds. Also creates the connection pool, with proxy and certificates.
import { getCACertificates } from 'node:tls';
import { Agent, type buildConnector, type Dispatcher, EnvHttpProxyAgent, errors, request as send } from 'undici';
import type { Network } from '../config/network.ts';
import type { HttpProfile } from '../config/profile/profile.ts';
import type { Clock } from '../model/clock.ts';
import { SyncError } from '../model/errors.ts';
import type { MemoryReservation } from './body/answer-memory.ts';
import { ACCEPTED_ENCODINGS, type BodySink, readBody } from './body/read-body.ts';
import type { HttpMethod } from './client.ts';
import type { AnswerHeaders } from './outcome/outcome-table.ts';
import type { AnswerFacts } from './rate-limit/rate-limiter.ts';
import type { AnswerLimits } from './rate-limit/answer-limits.ts';

/** An error body is only quoted in messages. */
const MAX_ERROR_BYTES = 1_048_576;

/** One HTTP request with its final URL and headers. */
export interface WireRequest {
  url: URL;
  method: HttpMethod;
  headers: Readonly<Record<string, string>>;
  body?: string;
  /** Largest body; default: `http.max_body` of the profile. */
  maxBytes?: number;
  signal?: AbortSignal | undefined;
  /** Consumes the body of a 2xx, whose deadline then restarts while bytes arrive. */
  into?: BodySink | undefined;
}

/** The answer, or the reason why it is incomplete: a lost connection is an answer with a `failure`. */
export interface WireAnswer {
  /** 0 if no answer came. */
  status: number;
  headers: AnswerHeaders;
  /** The whole decompressed body; empty after a failure, or if the body of an error is unreadable. */
  bytes: Buffer;
  /** Error code if no answer arrived, or a 2xx is incomplete; null otherwise. */
  failure: string | null;
  /** Local epoch milliseconds just before sending, and when the headers arrived. */
  sentAt: number;
  receivedAt: number;
  /** Milliseconds from sending to the last byte. */
  elapsedMs: number;
}

const NO_ANSWER = { status: 0, headers: {}, bytes: Buffer.alloc(0), failure: null, elapsedMs: 0 };

/** Accounts for the bytes and the memory of a body. */
interface BodyAccount {
  /** Called with the bytes of each chunk as received. */
  count: (bytes: number) => void;
  reservation: MemoryReservation;
}

/** Sends one request. Throws only the signal's reason, and bugs. */
export type SendRequest = (request: WireRequest, account: BodyAccount) => Promise<WireAnswer>;

/**
 * Creates the function that sends a request through the agent within one deadline, and decompresses the body up to
 * `http.max_body`. A sink receives the body as sent. Redirects are not followed.
 */
export function createExchange(agent: Dispatcher, http: HttpProfile, clock: Clock): SendRequest {
  return async ({ url, method, headers, body = null, maxBytes, signal, into }, { count, reservation }) => {
    const start = clock.monotonic();
    const sentAt = clock.now();
    const answer: WireAnswer = { ...NO_ANSWER, sentAt, receivedAt: sentAt };
    const deadline = startDeadline(http.timeout, signal, into === undefined ? 'whole' : 'silence');
    const received = (bytes: number): void => {
      count(bytes);
      deadline.progress(bytes);
    };
    try {
      const sent = { method, headers: { 'accept-encoding': ACCEPTED_ENCODINGS, ...headers }, body };
      const response = await send(url, { ...sent, dispatcher: agent, signal: deadline.signal });
      Object.assign(answer, { status: response.statusCode, headers: response.headers, receivedAt: clock.now() });
      if (into !== undefined && answer.status >= 200 && answer.status < 300) {
        await into.receive({ status: answer.status, headers: answer.headers, body: response.body, count: received });
      } else {
        const max = answer.status < 300 ? http.max_body : MAX_ERROR_BYTES;
        const limit = { cap: Math.min(maxBytes ?? http.max_body, max), reservation };
        answer.bytes = await readBody(response.body, encodingOf(answer.headers), limit, received);
      }
    } catch (error) {
      signal?.throwIfAborted();
      const failure = failureCode(error);
      // An error status is sufficient without its body.
      if (answer.status < 300) answer.failure = failure;
    } finally {
      deadline.clear();
    }
    answer.elapsedMs = clock.monotonic() - start;
    return answer;
  };
}

/** Returns Content-Encoding; empty if the body is not encoded. */
export function encodingOf(headers: AnswerHeaders): string {
  const text = String(headers['content-encoding'] ?? '');
  return text.trim().toLowerCase() === 'identity' ? '' : text;
}

/** Returns the code of a network error; rethrows an error without a code, which is a bug. */
function failureCode(error: unknown): string {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ('code' in cause && typeof cause.code === 'string') return cause.code;
    // undici 8 leaves the code of most of these undefined.
    if (cause instanceof errors.HTTPParserError) return 'HPE_INVALID';
  }
  throw error;
}

/** Returns what the rate limiter learns from an answer; null if none came. */
export function factsOf(answer: WireAnswer, limits: AnswerLimits, limited: boolean): AnswerFacts | null {
  return answer.status === 0 ? null : { limits, receivedAt: answer.receivedAt, limited };
}

/** A body with fewer bytes per interval is stalled, so single bytes cannot keep a connection open. */
const MIN_PROGRESS_BYTES = 16_384;

interface Deadline {
  /** Aborted by the deadline, and with the outer signal. */
  signal: AbortSignal;
  progress(bytes: number): void;
  clear(): void;
}

/**
 * Starts a deadline of `ms` milliseconds: for the whole exchange (`whole`), or for each interval in which the body stalls
 * (`silence`), so that a large body has enough time. Not `AbortSignal.any`, which is collected slowly on a long-lived
 * signal.
 */
function startDeadline(ms: number, outer: AbortSignal | undefined, limit: 'whole' | 'silence'): Deadline {
  outer?.throwIfAborted();
  const controller = new AbortController();
  const passOn = (): void => controller.abort(outer?.reason);
  const reason = limit === 'whole' ? `no whole answer within ${ms} ms` : `next to nothing came for ${ms} ms`;
  let receivedBytes = 0;
  const timer = setInterval(() => {
    const isMoving = limit === 'silence' && receivedBytes >= MIN_PROGRESS_BYTES;
    receivedBytes = 0;
    if (!isMoving) controller.abort(new SyncError('deadline', reason, { recovery: 'retry' }));
  }, ms);
  outer?.addEventListener('abort', passOn, { once: true });
  return {
    signal: controller.signal,
    progress: (bytes) => void (receivedBytes += bytes),
    clear() {
      clearInterval(timer);
      outer?.removeEventListener('abort', passOn);
    },
  };
}

const MAX_HEADER_BYTES = 16_384;

/** Creates the connector of an agent; connections to a proxy do not use it. */
export type ConnectorMaker = (options: buildConnector.BuildOptions) => buildConnector.connector;

/** Creates the connection pool: HTTP/1.1 with keep-alive and verified certificates, within `http.concurrency`. */
export function createAgent(http: HttpProfile, network: Network | undefined, make?: ConnectorMaker): Dispatcher {
  const authorities = network?.ca === undefined ? {} : { ca: [...getCACertificates('default'), network.ca] };
  const { cert, key, passphrase } = network ?? {};
  const clientCertificate = cert === undefined ? {} : { cert, key, passphrase };
  const tls = { timeout: http.headers_timeout, rejectUnauthorized: true, ...authorities };
  const connect = { ...tls, ...clientCertificate };
  const options = {
    connections: http.concurrency,
    allowH2: false,
    headersTimeout: http.headers_timeout,
    // The deadline above covers the body; a timeout between chunks would not end a slow drip.
    bodyTimeout: 0,
    maxHeaderSize: MAX_HEADER_BYTES,
    connect: make === undefined ? connect : make({ ...connect, allowH2: false }),
  };
  const { http: httpProxy = '', https: httpsProxy = '', except: noProxy = '' } = network?.proxies ?? {};
  if (httpProxy === '' && httpsProxy === '') return new Agent(options);
  // The client certificate is for the service, not for the proxy.
  return new EnvHttpProxyAgent({
    ...options,
    httpProxy,
    httpsProxy,
    noProxy,
    requestTls: connect,
    proxyTls: tls,
  });
}
