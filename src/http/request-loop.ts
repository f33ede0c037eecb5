import type { Network } from '../config/network.ts';
import type { HttpProfile } from '../config/profile/profile.ts';
import type { RateDialect } from '../config/profile/rate-dialect.ts';
import type { RequestedVersion } from '../config/profile/request-fields.ts';
import type { Clock } from '../model/clock.ts';
import { DeferredError, SyncError } from '../model/errors.ts';
import type { JsonValue } from '../model/json.ts';
import { clockOf } from '../model/timestamp-text.ts';
import { type Credentials, falsifyCredential, NO_CREDENTIAL, type SentCredential } from './auth/credentials.ts';
import { type MemoryReservation, answerMemory } from './body/answer-memory.ts';
import { type ShownQuery, shownUrl } from './body/read-body.ts';
import {
  type ApiAnswer,
  type ApiRequest,
  type AttemptEvent,
  type HttpMethod,
  readAnswerAge,
  type RetryEvent,
} from './client.ts';
import { factsOf, type SendRequest, type WireAnswer } from './exchange.ts';
import { matchSkipRule, type OutcomeVerdict, type ReceivedResponse } from './outcome/outcome-table.ts';
import { interpret } from './outcome/read-answer.ts';
import { hintFor, type JudgedAttempt, requestError, requestId } from './outcome/request-error.ts';
import { readAnswerLimits } from './rate-limit/answer-limits.ts';
import type { Attempted, RateLimiter } from './rate-limit/rate-limiter.ts';
import {
  firstHop,
  type Hop,
  nextHop,
  type OriginPolicy,
  refusePostRedirect,
  withAppended,
  withoutParams,
  withVersionQuery,
} from './redirect.ts';

/** Runs one request until it has an answer: rate limiter, credential, attempts, retries and redirects (`runRequest`). */

/** Wait between attempts if the service states none, in milliseconds. */
export interface BackoffLimits {
  base: number;
  cap: number;
}

export const BACKOFF: BackoffLimits = { base: 500, cap: 30_000 };

/** Retries in a row without any success in between, over all requests of one client. */
const RETRY_QUOTA = 50;

/**
 * Returns the wait after this number of failures (1 or more): it doubles from `base` to `cap`, and 50 to 100 % of it is
 * used, so that requests that failed together are not retried together. `random` returns 0 <= x < 1.
 */
export function backoffDelay(failures: number, limits: BackoffLimits, random: () => number): number {
  const whole = Math.min(limits.cap, limits.base * 2 ** Math.min(failures - 1, 30));
  return Math.round(whole * (0.5 + random() / 2));
}

/** Limits retries during an outage: each retry takes one, each success returns one. */
export interface RetryQuota {
  /** Returns false if the quota is used up: then the request fails instead of adding load. */
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

/** After this many "too many requests" for one request, it fails. */
const MAX_LIMITED_ANSWERS = 50;

/** Max new tokens for one request. */
const MAX_RENEWALS = 5;

/** The shared parts of all requests of a client. */
export interface ClientParts {
  /** Timeouts and size limits. */
  http: HttpProfile;
  network: Network | undefined;
  clock: Clock;
  credentials: Credentials;
  exchange: SendRequest;
  judge: (response: ReceivedResponse) => OutcomeVerdict;
  isRecord: (body: JsonValue) => boolean;
  /** Headers for the origin of `base_url`: `PLAIN_HEADERS` and those of the profile. */
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

/** Codes of answers that mean that nothing is at the URL. */
const ABSENT_CODES: ReadonlySet<string> = new Set(['not_found', 'gone']);

/** The state of one request. */
interface RequestProgress {
  request: ApiRequest;
  hop: Hop;
  reservation: MemoryReservation;
  /** Failed attempts, except those that were rate-limited or lacked a valid credential. */
  failures: number;
  limited: number;
  /** Attempts whose credential was refused. */
  renewals: number;
  /** True after a credential has expired in the wait for a slot: the next one is sent in any case. */
  sendsExpired: boolean;
}

/** The result of one slot of the rate limiter. */
type AttemptResult =
  | JudgedAttempt
  | { kind: 'redirect'; answer: WireAnswer }
  /** The credential expired in the wait for the slot; nothing was sent. */
  | { kind: 'expired' };

/**
 * Runs one request from its first attempt to its answer. Every attempt and every redirect takes its own slot of the rate
 * limiter, and no slot is held during a wait. Throws `SyncError` if no attempt succeeds, the rate limiter's
 * `DeferredError`, and the signal's reason.
 */
export async function runRequest(parts: ClientParts, request: ApiRequest): Promise<ApiAnswer> {
  const reservation = request.reservation ?? answerMemory.open();
  try {
    return await runAttempts(parts, request, reservation);
  } catch (error) {
    reservation.release();
    throw error;
  } finally {
    if (request.reservation === undefined) reservation.release();
  }
}

async function runAttempts(
  parts: ClientParts,
  request: ApiRequest,
  reservation: MemoryReservation,
): Promise<ApiAnswer> {
  const { origins, version, credentials } = parts;
  const hop = firstHop(request.url, origins);
  // A URL without a credential, such as that of a file, is requested unchanged.
  if (hop.credentialed) {
    hop.url = withVersionQuery(withoutParams(hop.url, credentials.queryNames), version.query, origins.home);
  }
  const begun = { failures: 0, limited: 0, renewals: 0, sendsExpired: false };
  const state: RequestProgress = { request, hop, reservation, ...begun };
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

/** Makes one attempt within the rate limit; null if no credential could be obtained and another attempt is allowed. */
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

/** Makes one attempt: sends the request, reads the answer and decides its outcome. */
async function attempt(
  parts: ClientParts,
  state: RequestProgress,
  own: SentCredential,
  dialect: RateDialect,
): Promise<Attempted<AttemptResult>> {
  const { request, hop, reservation } = state;
  const { meter, into, signal, body, as: caller } = request;
  const credential = caller === undefined ? own : caller === 'nobody' ? NO_CREDENTIAL : falsifyCredential(own);
  // Only the source's own credential is renewed when it is refused.
  const sent = hop.credentialed && caller === undefined ? own : null;
  meter.requests += 1;
  // Releases the memory of the previous attempt.
  reservation.resize(0);
  // Only here, because a credential in the query must not be stored or logged.
  const url = withAppended(hop.url, credential.query);
  const headers = { ...headersFor(parts, state, credential), ...into?.headers() };
  const answer = await parts.exchange(
    { url, method: methodOf(state), headers, ...(body === undefined ? {} : { body }), signal, into },
    { count: (bytes) => (meter.bytes += bytes), reservation },
  );
  if (REDIRECTS.has(answer.status)) {
    const facts = factsOf(answer, readAnswerLimits(answer, dialect), false);
    return { result: { kind: 'redirect', answer }, facts };
  }
  const reading = interpret(answer, request.isRecord ?? parts.isRecord, {
    values: parts.http.max_values,
    digits: parts.http.max_digits,
    reservation,
  });
  const limits = readAnswerLimits({ ...answer, body: reading.response.json }, dialect);
  const response = { ...reading.response, limits };
  const verdict = matchSkipRule(request.skips, response) ?? parts.judge(response);
  return {
    result: { kind: 'judged', verdict, answer, reading, sent },
    facts: factsOf(answer, limits, verdict.outcome === 'limited'),
  };
}

/** Other origins get neither the credential nor the headers of the profile, because both may be secret. */
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

/** Waits before the next attempt to obtain a credential; throws the error if it is final. */
async function retryCredential(parts: ClientParts, state: RequestProgress, error: unknown): Promise<void> {
  if (!(error instanceof SyncError) || error instanceof DeferredError || error.recovery !== 'retry') throw error;
  state.failures += 1;
  if (state.failures >= parts.http.attempts || !parts.quota.take()) throw error;
  const { code } = error;
  await waitToRetry(parts, state, { status: null, code, reason: code, request_id: null, of: parts.http.attempts - 1 });
}

/** Moves the request to the target of a redirect. */
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
async function react(parts: ClientParts, state: RequestProgress, judged: JudgedAttempt): Promise<ApiAnswer | null> {
  const { outcome, code } = judged.verdict;
  const { request } = state;
  if (isGone(request, judged) || (outcome === 'stop' && request.missing === 'skip' && ABSENT_CODES.has(code))) {
    return toAnswer(parts, state, judged, 'skip');
  }
  switch (outcome) {
    case 'ok':
    case 'skip':
      return toAnswer(parts, state, judged, outcome);
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

/** True if the caller's rule says that the record is deleted. A limit or a refused credential does not mean that. */
function isGone(request: ApiRequest, { verdict, answer: { status, failure }, reading }: JudgedAttempt): boolean {
  if (failure !== null || verdict.outcome === 'limited' || verdict.outcome === 'reauth') return false;
  return request.isGone?.({ status, json: reading.response.json }) ?? false;
}

async function retryLater(parts: ClientParts, state: RequestProgress, judged: JudgedAttempt): Promise<void> {
  const { answer, verdict } = judged;
  state.failures += 1;
  const attempts = Math.min(parts.http.attempts, verdict.attempts ?? Infinity);
  if (state.failures >= attempts) throw failure(parts, state, judged);
  if (!parts.quota.take()) throw failure(parts, state, judged, 'too many requests fail to try this one again');
  state.request.meter.retries += 1;
  const reason = answer.status >= 400 ? `answered ${answer.status}` : verdict.reason;
  await waitToRetry(parts, state, {
    status: answer.status === 0 ? null : answer.status,
    code: verdict.code,
    reason: answer.failure ?? reason,
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

/** Waits for memory without holding a slot or memory, which the request that uses the memory may need. */
async function awaitMemory(parts: ClientParts, state: RequestProgress, judged: JudgedAttempt): Promise<void> {
  const { signal, whenFull, meter } = state.request;
  state.reservation.resize(0);
  if (whenFull === 'fail') throw failure(parts, state, judged);
  try {
    await state.reservation.waitForTurn(parts.clock, parts.http.timeout, signal);
  } catch (error) {
    signal?.throwIfAborted();
    throw error instanceof SyncError ? failure(parts, state, judged) : error;
  }
  meter.retries += 1;
}

/** Returns the answer of the last attempt; `json` is null if its outcome is `skip`. */
function toAnswer(
  parts: ClientParts,
  state: RequestProgress,
  judged: JudgedAttempt,
  outcome: 'ok' | 'skip',
): ApiAnswer {
  const { answer, reading, verdict } = judged;
  const age = readAnswerAge(answer.headers);
  parts.quota.refund();
  return {
    outcome,
    code: verdict.code,
    url: state.hop.url,
    status: answer.status,
    headers: answer.headers,
    bytes: reading.bytes,
    json: outcome === 'ok' ? (reading.response.json ?? null) : null,
    requestedAt: answer.sentAt - age.ageMs,
    age,
    serverDate: clockOf(answer.headers['date'], answer.receivedAt),
    withheld: parts.credentials.queryNames,
  };
}

function failure(parts: ClientParts, state: RequestProgress, judged: JudgedAttempt, note?: string): SyncError {
  return requestError({
    judged,
    method: methodOf(state),
    url: urlOf(parts, state),
    hint: hintFor(judged, { url: state.hop.url, versionPrefix: parts.version.prefix }),
    attempts: Math.max(state.failures, state.limited, 1),
    secrets: parts.origins.secrets,
    note,
  });
}

/** Counts and logs an attempt. */
function report(parts: ClientParts, state: RequestProgress, { answer, verdict }: JudgedAttempt): void {
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
