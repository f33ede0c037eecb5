import { ageOf } from '../model/answer-age.ts';
import { DeferredError, SyncError } from '../model/errors.ts';
import { clockOf } from '../model/http-date.ts';
import type { Outcome } from '../model/vocabulary.ts';
import type { Governor } from '../queue/governor.ts';
import type { RequestedVersion } from '../source/http-fields.ts';
import { attempt, type AttemptParts, type AttemptResult } from './attempt.ts';
import {
  failedAttempt,
  failedCredential,
  type RetriedRequest,
  type RetryParts,
  type RetryQuota,
  waitToRetry,
} from './backoff.ts';
import type { AnswerHold, AnswerMemory } from './body/answer-memory.ts';
import { type ShownQuery, shownUrl } from './body/safe-text.ts';
import type { ApiAnswer, ApiRequest, AttemptEvent, HttpMethod } from './client.ts';
import type { AnswerHeaders } from './outcome/outcome-table.ts';
import { hintFor, requestError, requestId } from './outcome/request-failure.ts';
import { withoutParams, withVersionQuery } from './query.ts';
import { firstHop, type Hop, nextHop, type OriginPolicy, refusePostRedirect } from './redirect.ts';

/** Answers of "too many requests" to one request after which something else must be wrong. */
const MOST_LIMITED = 50;

/** Tokens that may end on the way of one request. */
const MOST_RENEWALS = 5;

export interface LoopParts extends AttemptParts, RetryParts {
  /** That of the origin which is asked. */
  governorOf: (url: URL) => Pick<Governor, 'run'>;
  memory: AnswerMemory;
  /** Milliseconds that an answer waits until there is memory for it. */
  memoryWait: number;
  origins: OriginPolicy;
  /** Attempts per request, the first one included. */
  attempts: number;
  quota: RetryQuota;
  shownQuery: ShownQuery;
  version: RequestedVersion;
  /** Called with every answer of the service itself. */
  answered: ((headers: AnswerHeaders, url: URL) => void) | undefined;
  log: ((event: AttemptEvent) => void) | undefined;
}

/** Codes of answers that say that there is nothing at the address. */
const ABSENT_CODES: ReadonlySet<string> = new Set(['not_found', 'gone']);

/** The state of one request. */
interface Progress {
  request: ApiRequest;
  hop: Hop;
  hold: AnswerHold;
  /** Attempts that counted: neither limited, nor renewed, nor sent into a stale connection. */
  failures: number;
  limited: number;
  /** Refusals of the credential, and whether the last one was of one that nothing speaks against. */
  renewals: number;
  isDoubted: boolean;
  staleUsed: boolean;
  evenStale: boolean;
}

type Judged = Extract<AttemptResult, { kind: 'judged' }>;

/**
 * One request from its first attempt to its answer. The loop is outside and the slot inside: every attempt and every
 * redirect pays for itself, and nothing is held while waiting. Throws `SyncError` when it is over without an answer,
 * the governor's `DeferredError`, and the signal's reason.
 */
export async function runRequest(parts: LoopParts, request: ApiRequest): Promise<ApiAnswer> {
  const hold = request.hold ?? parts.memory.open();
  try {
    return await runAttempts(parts, request, hold);
  } catch (error) {
    hold.release();
    throw error;
  } finally {
    if (request.hold === undefined) hold.release();
  }
}

async function runAttempts(parts: LoopParts, request: ApiRequest, hold: AnswerHold): Promise<ApiAnswer> {
  const { origins, version, credentials } = parts;
  const url = withVersionQuery(withoutParams(request.url, credentials.queryNames), version.query, origins.home);
  const hop = firstHop(url, origins);
  const begun = { failures: 0, limited: 0, renewals: 0, isDoubted: false, staleUsed: false, evenStale: false };
  const state: Progress = { request, hop, hold, ...begun };
  for (;;) {
    request.signal?.throwIfAborted();
    const result = await takeSlot(parts, state);
    if (result === null) continue;
    if (result.kind === 'stale_credential') state.evenStale = true;
    else if (result.kind === 'redirect') follow(parts, state, result);
    else {
      report(parts, state, result);
      if (isGone(state, result)) return answerOf(parts, state, result, 'skip');
      const answer = await REACTIONS[result.verdict.outcome](parts, state, result);
      if (answer !== null) return answer;
    }
  }
}

/** By the caller's own rule; a limit of the service's and a refused credential are about neither. */
function isGone({ request }: Progress, { verdict, answer: { status, failure }, reading }: Judged): boolean {
  if (failure !== null || verdict.outcome === 'limited' || verdict.outcome === 'reauth') return false;
  return request.isGone?.({ status, json: reading.seen.json }) ?? false;
}

/** One attempt through the governor; null if the credential could not be had yet and it is worth another try. */
async function takeSlot(parts: LoopParts, state: Progress): Promise<AttemptResult | null> {
  const { lane, signal } = state.request;
  if (state.hop.credentialed) {
    try {
      await parts.credentials.ready(lane, signal);
    } catch (error) {
      await retryCredential(parts, state, error);
      return null;
    }
  }
  return parts.governorOf(state.hop.url).run(lane, (dialect) => attempt(parts, state, dialect), signal);
}

async function retryCredential(parts: LoopParts, state: Progress, error: unknown): Promise<void> {
  if (!(error instanceof SyncError) || error instanceof DeferredError || error.recovery !== 'retry') throw error;
  state.failures += 1;
  if (state.failures >= parts.attempts || !parts.quota.take()) throw error;
  await waitToRetry(parts, askedBy(parts, state), failedCredential(error), parts.attempts - 1);
}

function follow(parts: LoopParts, state: Progress, { answer }: Extract<AttemptResult, { kind: 'redirect' }>): void {
  try {
    if (methodOf(state) !== 'GET') refusePostRedirect(answer, state.hop);
    const hop = nextHop(state.hop, answer.headers['location'], parts.origins);
    state.hop = { ...hop, url: withoutParams(hop.url, hop.credentialed ? parts.credentials.queryNames : []) };
  } catch (error) {
    if (!(error instanceof SyncError)) throw error;
    const message = `${methodOf(state)} ${urlOf(parts, state)} answered ${answer.status}: ${error.message}`;
    throw new SyncError(error.code, message, { recovery: error.recovery, hint: error.hint });
  }
}

type Reaction = (parts: LoopParts, state: Progress, judged: Judged) => Promise<ApiAnswer | null>;

/** How a request reacts to each outcome: an answer, an error, or null for another attempt. */
const REACTIONS: Readonly<Record<Outcome, Reaction>> = {
  ok: async (parts, state, judged) => answerOf(parts, state, judged, 'ok'),
  skip: async (parts, state, judged) => answerOf(parts, state, judged, 'skip'),
  retry: retryLater,
  limited: async (parts, state, judged) => {
    state.request.meter.limited += 1;
    state.limited += 1;
    if (state.limited >= MOST_LIMITED) throw failure(parts, state, judged, 'it never stopped limiting');
    return null;
  },
  reauth: async (parts, state, judged) => {
    const { proof } = judged.sent;
    const renewal = proof === null ? 'none' : parts.credentials.renew(proof, state.renewals > 0);
    state.renewals += 1;
    if (renewal === 'none' || state.isDoubted || state.renewals > MOST_RENEWALS) throw failure(parts, state, judged);
    state.isDoubted = renewal === 'doubted';
    return null;
  },
  stop: async (parts, state, judged) => {
    const isMissing = state.request.missing === 'skip' && ABSENT_CODES.has(judged.verdict.code);
    if (isMissing) return answerOf(parts, state, judged, 'skip');
    throw failure(parts, state, judged);
  },
};

/** What a read would be asked for again because of, in an answer to a write that was done. */
const NO_ANSWER_NEEDED: ReadonlySet<string> = new Set(['empty_body', 'bad_json', 'bad_text']);

async function retryLater(parts: LoopParts, state: Progress, judged: Judged): Promise<ApiAnswer | null> {
  if (state.request.write === true) {
    if (NO_ANSWER_NEEDED.has(judged.verdict.code)) return answerOf(parts, state, judged, 'ok');
    throw failure(parts, state, judged, 'it may have been done all the same, and is not sent a second time');
  }
  if (judged.verdict.code === 'memory_full') return awaitMemory(parts, state, judged);
  if (judged.answer.stale && !state.staleUsed) {
    state.staleUsed = true;
    return null;
  }
  state.failures += 1;
  const most = Math.min(parts.attempts, judged.verdict.attempts ?? parts.attempts);
  if (state.failures >= most) throw failure(parts, state, judged);
  if (!parts.quota.take()) throw failure(parts, state, judged, 'too many requests fail to try this one again');
  state.request.meter.retries += 1;
  await waitToRetry(parts, askedBy(parts, state), failedAttempt(judged, parts.origins.secrets), most - 1);
  return null;
}

/** Outside of the slot, and holding nothing: the request that has the memory may need either. */
async function awaitMemory(parts: LoopParts, state: Progress, judged: Judged): Promise<null> {
  const { signal, whenFull, meter } = state.request;
  state.hold.resize(0);
  if (whenFull === 'fail') throw failure(parts, state, judged);
  try {
    await state.hold.takeTurn(parts.clock, parts.memoryWait, signal);
  } catch (error) {
    signal?.throwIfAborted();
    throw error instanceof SyncError ? failure(parts, state, judged) : error;
  }
  meter.retries += 1;
  return null;
}

function askedBy(parts: LoopParts, state: Progress): RetriedRequest {
  const { failures: retry, request } = state;
  return { method: methodOf(state), url: urlOf(parts, state), retry, signal: request.signal };
}

function answerOf(parts: LoopParts, state: Progress, judged: Judged, outcome: 'ok' | 'skip'): ApiAnswer {
  parts.quota.refund();
  return { ...answerFrom(judged, state.hop.url, outcome), withheld: parts.credentials.queryNames };
}

function failure(parts: LoopParts, state: Progress, judged: Judged, note?: string): SyncError {
  const { version, clock } = parts;
  return requestError({
    judged,
    method: methodOf(state),
    url: urlOf(parts, state),
    hint: hintFor(judged, { url: state.hop.url, versionPrefix: version.prefix, now: clock.monotonic() }),
    attempts: Math.max(state.failures, state.limited, 1),
    secrets: parts.origins.secrets,
    ...(note === undefined ? {} : { note }),
  });
}

function report(parts: LoopParts, state: Progress, { answer, verdict }: Judged): void {
  const { outcomes } = state.request.meter;
  outcomes[verdict.outcome] = (outcomes[verdict.outcome] ?? 0) + 1;
  if (state.hop.credentialed && answer.status !== 0) parts.answered?.(answer.headers, state.hop.url);
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

function methodOf({ request }: Progress): HttpMethod {
  return request.method ?? 'GET';
}

function urlOf(parts: LoopParts, state: Progress): string {
  return shownUrl(state.hop.url, parts.shownQuery);
}

/** The answer to a request out of its last attempt; without its content if it is one of the outcome `skip`. */
function answerFrom(
  { answer, reading, verdict }: Extract<AttemptResult, { kind: 'judged' }>,
  url: URL,
  outcome: ApiAnswer['outcome'],
): ApiAnswer {
  const age = ageOf(answer.headers);
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
