import type { Network } from '../config/network.ts';
import type { HttpProfile } from '../config/profile/profile.ts';
import type { RateDialect } from '../config/profile/rate-dialect.ts';
import type { RequestedVersion } from '../config/profile/request-fields.ts';
import { readAnswerAge } from '../model/answer-age.ts';
import type { Clock } from '../model/clock.ts';
import { DeferredError, SyncError } from '../model/errors.ts';
import type { JsonValue } from '../model/json.ts';
import { clockOf } from '../model/timestamp-text.ts';
import { type Credentials, falsifyCredential, NO_CREDENTIAL, type SentCredential } from './auth/credentials.ts';
import { type AnswerHold, answerMemory } from './body/answer-memory.ts';
import { type ShownQuery, shownUrl } from './body/read-body.ts';
import type { ApiAnswer, ApiRequest, AttemptEvent, HttpMethod, RetryEvent } from './client.ts';
import { factsOf, type SendRequest, type WireAnswer } from './exchange.ts';
import { declaredVerdict, type OutcomeVerdict, type Seen } from './outcome/outcome-table.ts';
import { interpret } from './outcome/read-answer.ts';
import { hintFor, type Judged, requestError, requestId } from './outcome/request-error.ts';
import { readAnswerLimits } from './rate-limit/answer-limits.ts';
import type { Attempted, RateLimiter } from './rate-limit/rate-limiter.ts';
import { firstHop, type Hop, nextHop, type OriginPolicy, refusePostRedirect, withAppended, withoutParams, withVersionQuery } from './redirect.ts';

/**
 * Runs one request until it has an answer: rate limiter, credential, attempts, retries and redirects (`runRequest`).
 */

/** How long to wait between attempts when the service did not say; milliseconds. */
export interface BackoffLimits {
  base: number;
  cap: number;
}

export const BACKOFF: BackoffLimits = { base: 500, cap: 30_000 };

/** Retries in a row without any success in between, over all requests of one client. */
const RETRY_QUOTA = 50;

/**
 * The wait after the given number of failures (1 or more): doubling from `base` to `cap`, of which a random half to
 * whole is taken, so that requests which failed together do not come back together. `random` gives 0 <= x < 1.
 * Waits that the service names are the rate limiter's and get no jitter.
 */
export function backoffDelay(failures: number, limits: BackoffLimits, random: () => number): number {
  const whole = Math.min(limits.cap, limits.base * 2 ** Math.min(failures - 1, 30));
  return Math.round(whole * (0.5 + random() / 2));
}

/** Bounds what a full outage costs: retries draw from it, successes give back. */
export interface RetryQuota {
  /** False when the quota is used up: the request fails now instead of adding to the outage. */
  take(): boolean;
  refund(): void;
}

export function createRetryQuota(capacity = RETRY_QUOTA): RetryQuota {
  let left = capacity;
  return {
    take() {
      if (left === 0) return false;
      left -= 1;
      return true;
    },
    refund() {
      left = Math.min(capacity, left + 1);
    },
  };
}

/** Answers of "too many requests" to one request after which something else must be wrong. */
const MAX_LIMITED_ANSWERS = 50;

/** Tokens that may expire during one request. */
const MAX_RENEWALS = 5;

/** What the requests of a client have in common. */
export interface ClientParts {
  /** Bounds of a request and its answer. */
  http: HttpProfile;
  network: Network | undefined;
  clock: Clock;
  credentials: Credentials;
  exchange: SendRequest;
  judge: (seen: Seen) => OutcomeVerdict;
  isRecord: (body: JsonValue) => boolean;
  /** Headers for the home origin: those that go anywhere (`PLAIN_HEADERS`), and the profile's. */
  homeHeaders: Readonly<Record<string, string>>;
  /** Returns the rate limiter of an origin. */
  limiterFor: (url: URL) => { run: RateLimiter['run'] };
  origins: OriginPolicy;
  quota: RetryQuota;
  backoff: BackoffLimits;
  shownQuery: ShownQuery;
  version: RequestedVersion;
  log: ((event: AttemptEvent) => void) | undefined;
  retried: ((event: RetryEvent) => void) | undefined;
}

/** Headers of a request to any origin. */
export const PLAIN_HEADERS = { accept: 'application/json', 'user-agent': 'content-sync' };

/** Codes of answers that say that there is nothing at the address. */
const ABSENT_CODES: ReadonlySet<string> = new Set(['not_found', 'gone']);

/** The state of one request. */
interface RequestProgress {
  request: ApiRequest;
  hop: Hop;
  hold: AnswerHold;
  /** Attempts that counted: neither limited nor renewed. */
  failures: number;
  limited: number;
  /** Refusals of the credential. */
  renewals: number;
  /** True after a credential has expired in the wait for a slot: the next one is sent in any case. */
  sendsExpired: boolean;
}

/** The result of one slot of the rate limiter. */
type AttemptResult =
  | Judged
  | { kind: 'redirect'; answer: WireAnswer }
  /** The credential expired in the wait for the slot; nothing was sent. */
  | { kind: 'expired' };

/**
 * Runs one request from its first attempt to its answer. The loop is outside of the slot: every attempt and every
 * redirect takes its own slot, and none is held while waiting. Throws `SyncError` when it is over without an answer,
 * the rate limiter's `DeferredError`, and the signal's reason.
 */
export async function runRequest(parts: ClientParts, request: ApiRequest): Promise<ApiAnswer> {
  const hold = request.hold ?? answerMemory.open();
  try {
    return await runAttempts(parts, request, hold);
  } catch (error) {
    hold.release();
    throw error;
  } finally {
    if (request.hold === undefined) hold.release();
  }
}

async function runAttempts(parts: ClientParts, request: ApiRequest, hold: AnswerHold): Promise<ApiAnswer> {
  const { origins, version, credentials } = parts;
  const hop = firstHop(request.url, origins);
  // An address that gets no credential, such as that of a file, is requested as it is.
  if (hop.credentialed) {
    hop.url = withVersionQuery(withoutParams(hop.url, credentials.queryNames), version.query, origins.home);
  }
  const begun = { failures: 0, limited: 0, renewals: 0, sendsExpired: false };
  const state: RequestProgress = { request, hop, hold, ...begun };
  for (;;) {
    request.signal?.throwIfAborted();
    const result = await takeSlot(parts, state);
    if (result === null) continue;
    if (result.kind === 'expired') state.sendsExpired = true;
    else if (result.kind === 'redirect') follow(parts, state, result);
    else {
      report(parts, state, result);
      const answer = await react(parts, state, result);
      if (answer !== null) return answer;
    }
  }
}

/** One attempt through the rate limiter; null if the credential could not be had yet and it is worth another try. */
async function takeSlot(parts: ClientParts, state: RequestProgress): Promise<AttemptResult | null> {
  const { lane, signal } = state.request;
  let credential = NO_CREDENTIAL;
  if (state.hop.credentialed) {
    try {
      credential = await parts.credentials.get(lane, signal);
    } catch (error) {
      await retryCredential(parts, state, error);
      return null;
    }
  }
  const use = async (dialect: RateDialect): Promise<Attempted<AttemptResult>> => {
    // Another request may have renewed it in the meantime.
    const newest = state.hop.credentialed ? parts.credentials.current() : NO_CREDENTIAL;
    if (newest === null && !state.sendsExpired) return { result: { kind: 'expired' }, facts: null };
    return attempt(parts, state, newest ?? credential, dialect);
  };
  return parts.limiterFor(state.hop.url).run(lane, use, signal);
}

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/** One attempt, inside its slot: sends, reads and judges. The limits are read here, once, for the judge and the rate limiter. */
async function attempt(
  parts: ClientParts,
  state: RequestProgress,
  own: SentCredential,
  dialect: RateDialect,
): Promise<Attempted<AttemptResult>> {
  const { request, hop, hold } = state;
  const { meter, into, signal, body } = request;
  const { as: caller } = request;
  const credential = caller === undefined ? own : caller === 'nobody' ? NO_CREDENTIAL : falsifyCredential(own);
  // Only the source's own credential is renewed when it is refused.
  const sent = hop.credentialed && caller === undefined ? own : null;
  meter.requests += 1;
  // Gives back the memory of the attempt before.
  hold.resize(0);
  // Added last: a credential in the query is never stored or logged.
  const url = withAppended(hop.url, credential.query);
  const headers = { ...headersFor(parts, state, credential), ...into?.headers() };
  const answer = await parts.exchange(
    { url, method: methodOf(state), headers, ...(body === undefined ? {} : { body }), signal, into },
    { count: (bytes) => (meter.bytes += bytes), hold },
  );
  if (REDIRECTS.has(answer.status)) {
    const facts = factsOf(answer, readAnswerLimits(answer, dialect), false);
    return { result: { kind: 'redirect', answer }, facts };
  }
  const reading = interpret(answer, request.isRecord ?? parts.isRecord, {
    values: parts.http.max_values,
    digits: parts.http.max_digits,
    hold,
  });
  const limits = readAnswerLimits({ ...answer, body: reading.seen.json }, dialect);
  const seen = { ...reading.seen, limits };
  const verdict = declaredVerdict(request.skips, seen) ?? parts.judge(seen);
  return {
    result: { kind: 'judged', verdict, answer, reading, sent },
    facts: factsOf(answer, limits, verdict.outcome === 'limited'),
  };
}

/** Away from home neither the credential nor the profile's headers go along: either may be a secret. */
function headersFor(
  parts: ClientParts,
  { request, hop }: RequestProgress,
  { headers }: SentCredential,
): Record<string, string> {
  if (!hop.credentialed) return { ...PLAIN_HEADERS };
  const all = [parts.homeHeaders, request.headers ?? {}, headers];
  const cookies = all.flatMap((each) => each['cookie'] ?? []);
  return Object.assign({}, ...all, cookies.length > 1 ? { cookie: cookies.join('; ') } : {});
}

async function retryCredential(parts: ClientParts, state: RequestProgress, error: unknown): Promise<void> {
  if (!(error instanceof SyncError) || error instanceof DeferredError || error.recovery !== 'retry') throw error;
  state.failures += 1;
  if (state.failures >= parts.http.attempts || !parts.quota.take()) throw error;
  const { code } = error;
  await waitToRetry(parts, state, { status: null, code, reason: code, request_id: null, of: parts.http.attempts - 1 });
}

function follow(
  parts: ClientParts,
  state: RequestProgress,
  { answer }: Extract<AttemptResult, { kind: 'redirect' }>,
): void {
  try {
    if (methodOf(state) !== 'GET') refusePostRedirect(answer.status);
    const hop = nextHop(state.hop, answer.headers['location'], parts.origins);
    state.hop = { ...hop, url: withoutParams(hop.url, hop.credentialed ? parts.credentials.queryNames : []) };
  } catch (error) {
    if (!(error instanceof SyncError)) throw error;
    const message = `${methodOf(state)} ${urlOf(parts, state)} answered ${answer.status}: ${error.message}`;
    throw new SyncError(error.code, message, { recovery: error.recovery, hint: error.hint });
  }
}

/** Reacts to the outcome of one attempt: returns an answer or throws; null for another attempt. */
async function react(parts: ClientParts, state: RequestProgress, judged: Judged): Promise<ApiAnswer | null> {
  const { outcome, code } = judged.verdict;
  const { request } = state;
  if (isGone(request, judged) || (outcome === 'stop' && request.missing === 'skip' && ABSENT_CODES.has(code))) {
    return answerOf(parts, state, judged, 'skip');
  }
  switch (outcome) {
    case 'ok':
    case 'skip':
      return answerOf(parts, state, judged, outcome);
    case 'retry':
      await (code === 'memory_full' ? awaitMemory(parts, state, judged) : retryLater(parts, state, judged));
      return null;
    case 'limited':
      request.meter.limited += 1;
      state.limited += 1;
      if (state.limited < MAX_LIMITED_ANSWERS) return null;
      throw failure(parts, state, judged, 'the service kept limiting it');
    case 'reauth': {
      const isRenewed = judged.sent !== null && parts.credentials.renew(judged.sent, state.renewals > 0);
      state.renewals += 1;
      if (isRenewed && state.renewals <= MAX_RENEWALS) return null;
      throw failure(parts, state, judged);
    }
    default:
      throw failure(parts, state, judged);
  }
}

/** By the caller's own rule. A limit or a refused credential says nothing about the record. */
function isGone(request: ApiRequest, { verdict, answer: { status, failure }, reading }: Judged): boolean {
  if (failure !== null || verdict.outcome === 'limited' || verdict.outcome === 'reauth') return false;
  return request.isGone?.({ status, json: reading.seen.json }) ?? false;
}

async function retryLater(parts: ClientParts, state: RequestProgress, judged: Judged): Promise<void> {
  const { answer, verdict } = judged;
  state.failures += 1;
  const attempts = Math.min(parts.http.attempts, verdict.attempts ?? Infinity);
  if (state.failures >= attempts) throw failure(parts, state, judged);
  if (!parts.quota.take()) throw failure(parts, state, judged, 'too many requests fail to try this one again');
  state.request.meter.retries += 1;
  const said = answer.status >= 400 ? `answered ${answer.status}` : verdict.reason;
  await waitToRetry(parts, state, {
    status: answer.status === 0 ? null : answer.status,
    code: verdict.code,
    reason: answer.failure ?? said,
    request_id: requestId(answer.headers, parts.origins.secrets),
    of: attempts - 1,
  });
}

/** Waits before a retry, after reporting it. */
function waitToRetry(
  parts: ClientParts,
  state: RequestProgress,
  failed: Omit<RetryEvent, 'method' | 'url' | 'retry' | 'wait_ms'>,
): Promise<void> {
  const { failures: retry, request } = state;
  const wait_ms = backoffDelay(retry, parts.backoff, Math.random);
  parts.retried?.({ method: methodOf(state), url: urlOf(parts, state), retry, ...failed, wait_ms });
  return parts.clock.sleep(wait_ms, request.signal);
}

/** Outside of the slot, and holding nothing: the request that has the memory may need either. */
async function awaitMemory(parts: ClientParts, state: RequestProgress, judged: Judged): Promise<void> {
  const { signal, whenFull, meter } = state.request;
  state.hold.resize(0);
  if (whenFull === 'fail') throw failure(parts, state, judged);
  try {
    await state.hold.takeTurn(parts.clock, parts.http.timeout, signal);
  } catch (error) {
    signal?.throwIfAborted();
    throw error instanceof SyncError ? failure(parts, state, judged) : error;
  }
  meter.retries += 1;
}

function answerOf(parts: ClientParts, state: RequestProgress, judged: Judged, outcome: 'ok' | 'skip'): ApiAnswer {
  parts.quota.refund();
  return { ...answerFrom(judged, state.hop.url, outcome), withheld: parts.credentials.queryNames };
}

function failure(parts: ClientParts, state: RequestProgress, judged: Judged, note?: string): SyncError {
  const { version } = parts;
  return requestError({
    judged,
    method: methodOf(state),
    url: urlOf(parts, state),
    hint: hintFor(judged, { url: state.hop.url, versionPrefix: version.prefix }),
    attempts: Math.max(state.failures, state.limited, 1),
    secrets: parts.origins.secrets,
    ...(note === undefined ? {} : { note }),
  });
}

function report(parts: ClientParts, state: RequestProgress, { answer, verdict }: Judged): void {
  const { outcomes } = state.request.meter;
  outcomes[verdict.outcome] = (outcomes[verdict.outcome] ?? 0) + 1;
  parts.log?.({
    msg: 'request',
    method: methodOf(state),
    url: urlOf(parts, state),
    status: answer.status === 0 ? null : answer.status,
    outcome: verdict.outcome,
    code: verdict.code,
    attempt: state.failures + 1,
    latency_ms: Math.round(answer.elapsedMs),
    request_id: requestId(answer.headers, parts.origins.secrets),
  });
}

function methodOf({ request }: RequestProgress): HttpMethod {
  return request.method ?? 'GET';
}

function urlOf(parts: ClientParts, state: RequestProgress): string {
  return shownUrl(state.hop.url, parts.shownQuery);
}

/** The answer to a request out of its last attempt; without its content if it is one of the outcome `skip`. */
function answerFrom({ answer, reading, verdict }: Judged, url: URL, outcome: ApiAnswer['outcome']): ApiAnswer {
  const age = readAnswerAge(answer.headers);
  return {
    outcome,
    code: verdict.code,
    url,
    status: answer.status,
    headers: answer.headers,
    bytes: reading.bytes,
    json: outcome === 'ok' ? (reading.seen.json ?? null) : null,
    requestedAt: answer.sentAt - age.ageMs,
    age,
    serverDate: clockOf(answer.headers['date'], answer.receivedAt),
  };
}
