// Runs one request until it has an answer: takes a slot of the rate limiter and the credential, sends the request, and
// retries, waits, renews the credential or follows a redirect as the outcome of the attempt says.
import type { Network } from '../config/network.ts';
import type { HttpProfile } from '../config/profile/profile.ts';
import type { RateDialect } from '../config/profile/rate-dialect.ts';
import type { RequestedVersion } from '../config/profile/request-fields.ts';
import type { Clock } from '../model/clock.ts';
import { DeferredError, SyncError } from '../model/errors.ts';
import type { JsonValue } from '../model/json.ts';
import { readServerTime } from '../model/timestamp-text.ts';
import { type Credentials, falsifyCredential, NO_CREDENTIAL, type SentCredential } from './auth/credentials.ts';
import { MemoryReservation } from './body/answer-memory.ts';
import { describeUrl, type QueryVisibility } from './body/read-body.ts';
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
import { readResponseBody } from './outcome/read-answer.ts';
import { hintFor, type JudgedAttempt, requestError, requestId } from './outcome/request-error.ts';
import { readAnswerLimits } from './rate-limit/answer-limits.ts';
import type { Attempted, RateLimiter } from './rate-limit/rate-limiter.ts';
import {
  firstTarget,
  type OriginPolicy,
  redirectTarget,
  refusePostRedirect,
  type RequestTarget,
  withAppended,
  withoutParams,
  withVersionQuery,
} from './redirect.ts';

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
  const maxDelay = Math.min(limits.cap, limits.base * 2 ** Math.min(failures - 1, 30));
  return Math.round(maxDelay * (0.5 + random() / 2));
}

/** Limits retries during an outage: each retry takes one, each success returns one. */
export class RetryQuota {
  #left = RETRY_QUOTA;

  /** Returns false if the quota is used up: then the request fails instead of adding load. */
  take(): boolean {
    if (this.#left === 0) return false;
    this.#left -= 1;
    return true;
  }

  refund(): void {
    this.#left = Math.min(RETRY_QUOTA, this.#left + 1);
  }
}

/** After this many "too many requests" for one request, it fails. */
const MAX_LIMITED_ANSWERS = 50;

/** Interval of checks whether the answer that exceeds the memory limit is released. */
const MEMORY_POLL_MS = 100;

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
  /** Decides what a response means for its request (`outcome/outcome-table.ts`). */
  judge: (response: ReceivedResponse) => OutcomeVerdict;
  /** Returns true if a body is one record, so that a field `error` belongs to it. */
  isRecord: (body: JsonValue) => boolean;
  /** Headers for the origin of `base_url` (`home` in `origins`): `PLAIN_HEADERS` and those of the profile. */
  homeHeaders: Readonly<Record<string, string>>;
  /** Returns the rate limiter of an origin. */
  limiterFor: (url: URL) => { run: RateLimiter['run'] };
  origins: OriginPolicy;
  quota: RetryQuota;
  backoff: BackoffLimits;
  queryVisibility: QueryVisibility;
  version: RequestedVersion;
  log: ((event: AttemptEvent) => void) | undefined;
  retried: ((event: RetryEvent) => void) | undefined;
}

/** Headers of a request to any origin. */
export const PLAIN_HEADERS = { accept: 'application/json', 'user-agent': 'content-sync' };

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
  const reservation = request.reservation ?? new MemoryReservation();
  try {
    return await new RunningRequest(parts, request, reservation).run();
  } catch (error) {
    reservation.release();
    throw error;
  } finally {
    if (request.reservation === undefined) reservation.release();
  }
}

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/** One request with the state of its attempts. */
class RunningRequest {
  readonly #parts: ClientParts;
  readonly #request: ApiRequest;
  readonly #reservation: MemoryReservation;
  readonly #method: HttpMethod;
  #target: RequestTarget;
  /** Failed attempts, except those that were rate-limited or lacked a valid credential. */
  #failures = 0;
  /** Answers that said "too many requests". */
  #limited = 0;
  /** Attempts whose credential was refused. */
  #renewals = 0;
  /** True after a credential has expired in the wait for a slot: the next one is sent in any case. */
  #sendsExpired = false;

  constructor(parts: ClientParts, request: ApiRequest, reservation: MemoryReservation) {
    const { origins, version, credentials } = parts;
    this.#parts = parts;
    this.#request = request;
    this.#reservation = reservation;
    this.#method = request.method ?? 'GET';
    this.#target = firstTarget(request.url, origins);
    // A URL without a credential, such as that of a file, is requested unchanged.
    if (this.#target.credentialed) {
      const url = withoutParams(this.#target.url, credentials.queryNames);
      this.#target.url = withVersionQuery(url, version.query, origins.home);
    }
  }

  async run(): Promise<ApiAnswer> {
    for (;;) {
      this.#request.signal?.throwIfAborted();
      const result = await this.#takeSlot();
      if (result === null) continue;
      if (result.kind === 'expired') this.#sendsExpired = true;
      else if (result.kind === 'redirect') this.#follow(result.answer);
      else {
        this.#report(result);
        const answer = await this.#react(result);
        if (answer !== null) return answer;
      }
    }
  }

  /** Makes one attempt within the rate limit; null if no credential could be obtained and another attempt is allowed. */
  async #takeSlot(): Promise<AttemptResult | null> {
    const { credentials, limiterFor } = this.#parts;
    const { lane, signal } = this.#request;
    const { credentialed, url } = this.#target;
    let credential = NO_CREDENTIAL;
    if (credentialed) {
      try {
        credential = await credentials.get(lane, signal);
      } catch (error) {
        await this.#retryCredential(error);
        return null;
      }
    }
    const attemptInSlot = async (dialect: RateDialect): Promise<Attempted<AttemptResult>> => {
      // Another request may have renewed it in the meantime.
      const newest = credentialed ? credentials.current() : NO_CREDENTIAL;
      if (newest === null && !this.#sendsExpired) return { result: { kind: 'expired' }, facts: null };
      return this.#attempt(newest ?? credential, dialect);
    };
    return limiterFor(url).run(lane, attemptInSlot, signal);
  }

  /** Makes one attempt: sends the request, reads the answer and decides its outcome. */
  async #attempt(sourceCredential: SentCredential, dialect: RateDialect): Promise<Attempted<AttemptResult>> {
    const { exchange, http, isRecord, judge } = this.#parts;
    const { meter, into, signal, body, as: caller, skips } = this.#request;
    const reservation = this.#reservation;
    let credential = sourceCredential;
    if (caller === 'nobody') credential = NO_CREDENTIAL;
    if (caller === 'stranger') credential = falsifyCredential(sourceCredential);
    // Only the source's credential is renewed when it is refused.
    const sent = this.#target.credentialed && caller === undefined ? sourceCredential : null;
    meter.requests += 1;
    // Releases the memory of the previous attempt.
    reservation.resize(0);
    // Only here, because a credential in the query must not be stored or logged.
    const url = withAppended(this.#target.url, credential.query);
    const headers = { ...this.#headers(credential), ...into?.headers() };
    const answer = await exchange(
      { url, method: this.#method, headers, ...(body === undefined ? {} : { body }), signal, into },
      { count: (bytes) => (meter.bytes += bytes), reservation },
    );
    if (REDIRECTS.has(answer.status)) {
      const facts = factsOf(answer, readAnswerLimits(answer, dialect), false);
      return { result: { kind: 'redirect', answer }, facts };
    }
    const bounds = { values: http.max_values, digits: http.max_digits, reservation };
    const reading = readResponseBody(answer, this.#request.isRecord ?? isRecord, bounds);
    const limits = readAnswerLimits({ ...answer, body: reading.response.json }, dialect);
    const response = { ...reading.response, limits };
    const verdict = matchSkipRule(skips, response) ?? judge(response);
    return {
      result: { kind: 'judged', verdict, answer, reading, sent },
      facts: factsOf(answer, limits, verdict.outcome === 'limited'),
    };
  }

  /** Other origins get neither the credential nor the headers of the profile, because both may be secret. */
  #headers({ headers }: SentCredential): Record<string, string> {
    if (!this.#target.credentialed) return { ...PLAIN_HEADERS };
    const all = [this.#parts.homeHeaders, this.#request.headers ?? {}, headers];
    const cookies = all.flatMap((each) => each['cookie'] ?? []);
    return Object.assign({}, ...all, cookies.length > 1 ? { cookie: cookies.join('; ') } : {});
  }

  /** Waits before the next attempt to obtain a credential; throws the error if it is final. */
  async #retryCredential(error: unknown): Promise<void> {
    const { http, quota } = this.#parts;
    if (!(error instanceof SyncError) || error instanceof DeferredError || error.recovery !== 'retry') throw error;
    this.#failures += 1;
    if (this.#failures >= http.attempts || !quota.take()) throw error;
    const { code } = error;
    await this.#waitToRetry({ status: null, code, reason: code, request_id: null, of: http.attempts - 1 });
  }

  /** Moves the request to the target of a redirect. */
  #follow({ status, headers }: WireAnswer): void {
    const { origins, credentials } = this.#parts;
    try {
      if (this.#method !== 'GET') refusePostRedirect(status);
      const target = redirectTarget(this.#target, headers['location'], origins);
      this.#target = { ...target, url: withoutParams(target.url, target.credentialed ? credentials.queryNames : []) };
    } catch (error) {
      if (!(error instanceof SyncError)) throw error;
      const message = `${this.#method} ${this.#describeUrl()} answered ${status}: ${error.message}`;
      throw new SyncError(error.code, message, { recovery: error.recovery, hint: error.hint });
    }
  }

  /** Reacts to the outcome of one attempt: returns an answer or throws; null for another attempt. */
  async #react(judged: JudgedAttempt): Promise<ApiAnswer | null> {
    const { outcome, code } = judged.verdict;
    const request = this.#request;
    if (isGone(request, judged) || (outcome === 'stop' && request.missing === 'skip' && code === 'not_found')) {
      return this.#toAnswer(judged, 'skip');
    }
    switch (outcome) {
      case 'ok':
      case 'skip':
        return this.#toAnswer(judged, outcome);
      case 'retry':
        await (code === 'memory_full' ? this.#awaitMemory(judged) : this.#retryLater(judged));
        return null;
      case 'limited':
        request.meter.limited += 1;
        this.#limited += 1;
        if (this.#limited < MAX_LIMITED_ANSWERS) return null;
        throw this.#failure(judged, 'the service kept limiting it');
      case 'reauth': {
        const isRenewed = judged.sent !== null && this.#parts.credentials.renew(judged.sent, this.#renewals > 0);
        this.#renewals += 1;
        if (isRenewed && this.#renewals <= MAX_RENEWALS) return null;
        throw this.#failure(judged);
      }
      default:
        throw this.#failure(judged);
    }
  }

  async #retryLater(judged: JudgedAttempt): Promise<void> {
    const { http, quota, origins } = this.#parts;
    const { answer, verdict } = judged;
    this.#failures += 1;
    const attempts = Math.min(http.attempts, verdict.attempts ?? Infinity);
    if (this.#failures >= attempts) throw this.#failure(judged);
    if (!quota.take()) throw this.#failure(judged, 'too many requests fail to try this one again');
    this.#request.meter.retries += 1;
    const reason = answer.status >= 400 ? `answered ${answer.status}` : verdict.reason;
    await this.#waitToRetry({
      status: answer.status === 0 ? null : answer.status,
      code: verdict.code,
      reason: answer.failure ?? reason,
      request_id: requestId(answer.headers, origins.secrets),
      of: attempts - 1,
    });
  }

  /** Waits before a retry, after reporting it. */
  #waitToRetry(failed: Omit<RetryEvent, 'method' | 'url' | 'retry' | 'wait_ms'>): Promise<void> {
    const { backoff, retried, clock } = this.#parts;
    const retry = this.#failures;
    const wait_ms = backoffDelay(retry, backoff, Math.random);
    retried?.({ method: this.#method, url: this.#describeUrl(), retry, ...failed, wait_ms });
    return clock.sleep(wait_ms, this.#request.signal);
  }

  /** Waits until this answer may exceed the memory limit. Holds no slot or memory, which other answers may need. */
  async #awaitMemory(judged: JudgedAttempt): Promise<void> {
    const { clock, http } = this.#parts;
    const { signal, whenFull, meter } = this.#request;
    this.#reservation.resize(0);
    const endsAt = clock.monotonic() + http.timeout;
    if (whenFull === 'fail') throw this.#failure(judged);
    while (!this.#reservation.tryToExceed()) {
      if (clock.monotonic() >= endsAt) throw this.#failure(judged);
      await clock.sleep(MEMORY_POLL_MS, signal);
    }
    meter.retries += 1;
  }

  /** Returns the answer of the last attempt; `json` is null if its outcome is `skip`. */
  #toAnswer({ answer, reading, verdict }: JudgedAttempt, outcome: 'ok' | 'skip'): ApiAnswer {
    const { quota, credentials } = this.#parts;
    const age = readAnswerAge(answer.headers);
    quota.refund();
    return {
      outcome,
      code: verdict.code,
      url: this.#target.url,
      status: answer.status,
      headers: answer.headers,
      bytes: reading.bytes,
      json: outcome === 'ok' ? (reading.response.json ?? null) : null,
      requestedAt: answer.sentAt - age.ageMs,
      age,
      serverDate: readServerTime(answer.headers['date'], answer.receivedAt),
      withheld: credentials.queryNames,
    };
  }

  #failure(judged: JudgedAttempt, note?: string): SyncError {
    const { version, origins } = this.#parts;
    return requestError({
      judged,
      method: this.#method,
      url: this.#describeUrl(),
      hint: hintFor(judged, this.#target.url, version.prefix),
      attempts: Math.max(this.#failures, this.#limited, 1),
      secrets: origins.secrets,
      note,
    });
  }

  /** Counts and logs an attempt. */
  #report({ answer, verdict }: JudgedAttempt): void {
    const { outcome, code } = verdict;
    const { outcomes } = this.#request.meter;
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
    this.#parts.log?.({
      msg: 'request',
      method: this.#method,
      url: this.#describeUrl(),
      status: answer.status === 0 ? null : answer.status,
      outcome,
      code,
      attempt: this.#failures + 1,
      latency_ms: Math.round(answer.elapsedMs),
      request_id: requestId(answer.headers, this.#parts.origins.secrets),
    });
  }

  #describeUrl(): string {
    return describeUrl(this.#target.url, this.#parts.queryVisibility);
  }
}

/** True if the caller's rule says that the record is deleted. A limit or a refused credential does not mean that. */
function isGone(request: ApiRequest, { verdict, answer: { status, failure }, reading }: JudgedAttempt): boolean {
  if (failure !== null || verdict.outcome === 'limited' || verdict.outcome === 'reauth') return false;
  return request.isGone?.({ status, json: reading.response.json }) ?? false;
}
