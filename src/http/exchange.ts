/**
 * Sends one HTTP request over undici and reads its answer, with deadlines and size limits. No retries and no
 * redirects.
 */
import { getCACertificates } from 'node:tls';
import { Agent, type buildConnector, type Dispatcher, EnvHttpProxyAgent, errors, request as send } from 'undici';
import type { Network } from '../config/network.ts';
import type { HttpProfile } from '../config/profile/profile.ts';
import type { Clock } from '../model/clock.ts';
import { SyncError } from '../model/errors.ts';
import type { AnswerHold } from './body/answer-memory.ts';
import { ACCEPTED_ENCODINGS, type BodySink, readBody } from './body/read-body.ts';
import type { HttpMethod } from './client.ts';
import type { AnswerHeaders } from './outcome/outcome-table.ts';
import type { AnswerFacts } from './rate-limit/rate-limiter.ts';
import type { AnswerLimits } from './rate-limit/answer-limits.ts';

/** The body of an error answer is only shown, in part. */
const MAX_ERROR_BYTES = 1_048_576;
const NO_BYTES = Buffer.alloc(0);

/** One request as it goes over the wire. */
export interface WireRequest {
  url: URL;
  method: HttpMethod;
  headers: Readonly<Record<string, string>>;
  body?: string;
  /** Bytes of a body that is taken; the profile's if absent. */
  most?: number;
  signal?: AbortSignal | undefined;
  /** Takes the body of a 2xx, which then has a deadline for its silences in place of one for all of it. */
  into?: BodySink | undefined;
}

/** The answer, or how far it got. Never thrown: a lost connection is an answer with a `failure`. */
export interface WireAnswer {
  /** 0 if no answer came. */
  status: number;
  headers: AnswerHeaders;
  /** The whole body, decompressed; empty if there is a failure, or if an error answer's body is unreadable. */
  bytes: Buffer;
  /** Code of what kept a 2xx from arriving whole, or any answer from arriving at all; null if nothing did. */
  failure: string | null;
  /** Local epoch milliseconds just before sending, and when the headers arrived. */
  sentAt: number;
  receivedAt: number;
  /** Milliseconds from sending to the last byte. */
  elapsedMs: number;
}

/** How a body is accounted for. */
interface BodyAccount {
  /** Called with the bytes of each chunk as received. */
  count: (bytes: number) => void;
  /** The memory that the answer takes; more than the body, from the end of the exchange on. */
  hold: AnswerHold;
}

/** Sends one request. Throws only the signal's reason, and bugs. */
export type SendRequest = (request: WireRequest, account: BodyAccount) => Promise<WireAnswer>;

/**
 * One request over the agent with one total deadline, decompressed under the profile's cap; a body that goes into a sink
 * comes as it is. Follows no redirect.
 */
export function createExchange(agent: Dispatcher, http: HttpProfile, clock: Clock): SendRequest {
  return async (request, { count, hold }) => {
    const start = clock.monotonic();
    const sentAt = clock.now();
    const answer: WireAnswer = {
      status: 0,
      headers: {},
      bytes: NO_BYTES,
      failure: null,
      sentAt,
      receivedAt: sentAt,
      elapsedMs: 0,
    };
    const { into } = request;
    const deadline = startDeadline(http.timeout, request.signal, into === undefined ? 'whole' : 'silence');
    const received = (bytes: number): void => {
      count(bytes);
      deadline.progress(bytes);
    };
    try {
      const response = await send(request.url, { ...wireOptions(request), dispatcher: agent, signal: deadline.signal });
      Object.assign(answer, { status: response.statusCode, headers: response.headers, receivedAt: clock.now() });
      if (into !== undefined && answer.status >= 200 && answer.status < 300) {
        await into.receive({ status: answer.status, headers: answer.headers, body: response.body, count: received });
      } else {
        const limit = { cap: maxBytes(request, answer.status, http), hold };
        answer.bytes = await readBody(response.body, encodingOf(answer.headers), limit, received);
      }
    } catch (error) {
      request.signal?.throwIfAborted();
      const failure = failureCode(error);
      // An error status has said enough without its body.
      if (answer.status < 300) answer.failure = failure;
    } finally {
      deadline.clear();
    }
    answer.elapsedMs = clock.monotonic() - start;
    return answer;
  };
}

/** Empty for a body that comes as it is. */
export function encodingOf(headers: AnswerHeaders): string {
  const text = String(headers['content-encoding'] ?? '');
  return text.trim().toLowerCase() === 'identity' ? '' : text;
}

function maxBytes({ most }: WireRequest, status: number, { max_body }: HttpProfile): number {
  return Math.min(most ?? max_body, status < 300 ? max_body : MAX_ERROR_BYTES);
}

function wireOptions({ method, headers, body }: WireRequest) {
  return { method, headers: { 'accept-encoding': ACCEPTED_ENCODINGS, ...headers }, body: body ?? null };
}

/** The code of a failure on the wire; anything without one is a bug and is thrown on. */
function failureCode(error: unknown): string {
  for (let at = error; at instanceof Error; at = at.cause) {
    if ('code' in at && typeof at.code === 'string') return at.code;
    // undici 8 leaves the code of most of these undefined.
    if (at instanceof errors.HTTPParserError) return 'HPE_INVALID';
  }
  throw error;
}

/** The rate limiter's part of an answer; null if none came. */
export function factsOf(answer: WireAnswer, limits: AnswerLimits, limited: boolean): AnswerFacts | null {
  return answer.status === 0 ? null : { limits, receivedAt: answer.receivedAt, limited };
}

/** Bytes per interval below which a body counts as stalled, so that single bytes cannot hold a connection. */
const MIN_PROGRESS_BYTES = 16_384;

/** What ends an exchange that takes too long. */
interface Deadline {
  /** Fires when it is over, and with the outer signal. */
  signal: AbortSignal;
  /** Called with the bytes of each chunk. */
  progress(bytes: number): void;
  clear(): void;
}

/**
 * `whole`: for an exchange as a whole. `silence`: for each stretch of `ms` milliseconds in which next to nothing comes; a
 * large body may take as long as it needs. By hand: `AbortSignal.any` on a long-lived signal is slow to be collected.
 */
function startDeadline(ms: number, outer: AbortSignal | undefined, of: 'whole' | 'silence'): Deadline {
  outer?.throwIfAborted();
  const controller = new AbortController();
  const passOn = (): void => controller.abort(outer?.reason);
  const reason = of === 'whole' ? `no whole answer within ${ms} ms` : `next to nothing came for ${ms} ms`;
  let moved = 0;
  const timer = setInterval(() => {
    const isMoving = of === 'silence' && moved >= MIN_PROGRESS_BYTES;
    moved = 0;
    if (!isMoving) controller.abort(new SyncError('deadline', reason, { recovery: 'retry' }));
  }, ms);
  outer?.addEventListener('abort', passOn, { once: true });
  return {
    signal: controller.signal,
    progress: (bytes) => void (moved += bytes),
    clear() {
      clearInterval(timer);
      outer?.removeEventListener('abort', passOn);
    },
  };
}

const MAX_HEADER_BYTES = 16_384;

/** Makes the connector of an agent out of its options; it is not asked about connections of a proxy. */
export type ConnectorMaker = (options: buildConnector.BuildOptions) => buildConnector.connector;

/** Connections to the service: HTTP/1.1, kept alive, as many as the profile allows, certificates always checked. */
export function createAgent(http: HttpProfile, network: Network | undefined, make?: ConnectorMaker): Dispatcher {
  const authorities = network?.ca === undefined ? {} : { ca: [...getCACertificates('default'), network.ca] };
  const { cert, key, passphrase } = network ?? {};
  const proof = cert === undefined ? {} : { cert, key, passphrase };
  const tls = { timeout: http.headers_timeout, rejectUnauthorized: true, ...authorities };
  const connect = { ...tls, ...proof };
  const options = {
    connections: http.concurrency,
    allowH2: false,
    headersTimeout: http.headers_timeout,
    // The total deadline covers the body: a timeout between chunks does not end a drip.
    bodyTimeout: 0,
    maxHeaderSize: MAX_HEADER_BYTES,
    connect: make === undefined ? connect : make({ ...connect, allowH2: false }),
  };
  const { http: httpProxy = '', https: httpsProxy = '', except: noProxy = '' } = network?.proxies ?? {};
  if (httpProxy === '' && httpsProxy === '') return new Agent(options);
  // The certificate is for the service; a proxy gets none.
  return new EnvHttpProxyAgent({
    ...options,
    httpProxy,
    httpsProxy,
    noProxy,
    requestTls: { ...tls, ...proof },
    proxyTls: tls,
  });
}
