// The budget of one origin and credential decides when the next request may start. The rate limiter asks how long to wait
// (`getDelay`), records the start of the request (`noteStart`), and its end with the response (`recordEnd`). Limits that the
// service states come first. Without them the limit is searched as TCP does (AIMD): a little faster after each success,
// much slower after each 429. A budget is plain data, which processes share in a database row: its field names are stored.
import type { RateDialect } from '../../config/profile/rate-dialect.ts';
import type { Lane } from '../../model/vocabulary.ts';
import { type AnswerLimits, LONGEST_WAIT_MS } from './answer-limits.ts';
import {
  getAllowedRate,
  getNominalRate,
  getOpenTime,
  getPace,
  learnQuota,
  newQuota,
  newRateEstimate,
  noteRejection,
  noteSuccess,
  type Quota,
  type RateEstimate,
} from './quota.ts';

/** The limits of a service as the settings and the profile describe them. */
export interface ServiceLimits {
  dialect: RateDialect;
  /** Limit from the settings, of which `share` is used. */
  requestsPerSecond?: number | undefined;
  /** Fraction of the allowed rate to use, above 0 and up to 1. */
  share: number;
  /** Max requests in flight for each process. */
  concurrency: number;
  /** Max requests in flight of all processes together; null or absent for no such limit. */
  concurrencyTotal?: number | null | undefined;
}

export interface BudgetOptions extends ServiceLimits {
  /** 0 up to 1, for jitter. */
  random: () => number;
}

/** The part of an answer that changes the budget. */
export interface BudgetAnswer {
  limits: AnswerLimits;
  /** True for "too many requests". */
  limited: boolean;
  /** When its headers arrived. */
  at: number;
}

/** A request in flight, and since when. */
export interface OpenRequest {
  /** The process that sent it. */
  owner: string;
  lane: Lane;
  at: number;
}

/** The end of a request. */
export interface EndedRequest {
  request: number;
  startedAt: number;
  endedAt: number;
  /** Null if no answer came. */
  answer: BudgetAnswer | null;
}

/** Times are milliseconds of one clock. */
export interface Budget {
  readonly options: BudgetOptions;
  quotas: Map<string, Quota>;
  /** The rate found by AIMD if the service states none. */
  estimate: RateEstimate;
  /** Max requests in flight; fractional while it grows. */
  slots: number;
  /** True until the first 429: until then the slots double with every round of answers. */
  isRampingUp: boolean;
  /** Nothing is sent before this. */
  pausedUntil: number;
  /** True after a start or a pause until a request succeeds: one request is sent at a time. */
  probing: boolean;
  /** Number of consecutive 429s; those in flight together count once. */
  refusals: number;
  /** When the last counted 429 arrived. */
  refusedAt: number;
  /** The requests in flight, by their number. */
  open: Map<number, OpenRequest>;
  /** Requests started so far: the number of the latest one. */
  started: number;
  /** When the latest request was due; the next one is due an interval of the rate later. */
  due: number;
  /** Until when a quota last delayed a request: earlier time is not caught up. */
  shutAt: number;
  /** When a request of live work (any lane that is not yielding) last started; null if none did. */
  liveAt: number | null;
  /** When each process that shares the budget last stored a heartbeat. */
  seen: Map<string, number>;
}

/** After a stall, the requests of this much time may be sent at once. */
const MAX_CATCH_UP_MS = 250;
/** Min pause after a 429, whatever wait it requests. */
const MIN_PAUSE_MS = 1_000;
const MAX_JITTER_MS = 1_000;
/** Max pause after a 429 that requests no wait (`Retry-After`). */
const MAX_BACKOFF_PAUSE_MS = 60_000;
/** A quota is forgotten if no response mentions it for this long and others are mentioned; else after its window. */
const FORGET_MS = 60_000;
const SLOTS_DECREASE = 0.9;
/** Fraction of the slots that may be reserved for live work, which counts as used. */
const RESERVED_FRACTION = 0.2;
/** Slots are reserved for this long after a request of live work, such as the fetch of a record after a webhook. */
const LIVE_PERIOD_MS = 60_000;
/** A process without a heartbeat for this long is considered dead, and its requests ended. */
const MEMBER_TIMEOUT_MS = 5_000;

/** Creates a budget without known limits. */
export function newBudget(options: BudgetOptions, at: number): Budget {
  return {
    options,
    quotas: new Map(),
    estimate: newRateEstimate(null, options.share, at),
    slots: 1,
    isRampingUp: true,
    pausedUntil: 0,
    probing: true,
    refusals: 0,
    refusedAt: at,
    open: new Map(),
    started: 0,
    due: at - MAX_CATCH_UP_MS,
    shutAt: at - MAX_CATCH_UP_MS,
    liveAt: null,
    seen: new Map(),
  };
}

/** Forgets requested waits and quotas; the next request is sent alone, to test whether they still apply. */
export function forgetWaits(budget: Budget): void {
  Object.assign(budget, { pausedUntil: 0, probing: true, refusals: 0 });
  budget.quotas.clear();
}

/** Returns the milliseconds until the next request may start; infinite if that depends on an answer in flight. */
export function getDelay(budget: Budget, at: number): number {
  const inFlight = budget.open.size;
  if (inFlight > 0 && (budget.probing || inFlight >= Math.floor(budget.slots))) return Number.POSITIVE_INFINITY;
  const allowedAt = getAllowedTime(budget, at, inFlight);
  if (allowedAt > at) budget.shutAt = Number.isFinite(allowedAt) ? allowedAt : at;
  const delay = Math.max(0, allowedAt - at, budget.due + 1_000 / getRate(budget, at) - at);
  // Finite, because no response will arrive that could change it.
  return inFlight > 0 ? delay : Math.min(delay, LONGEST_WAIT_MS + MAX_JITTER_MS);
}

/** Returns the time from which pauses and quotas allow a request while others are in flight. */
function getAllowedTime({ quotas, pausedUntil, options }: Budget, at: number, inFlight: number): number {
  return Math.max(pausedUntil, ...[...quotas.values()].map((quota) => getOpenTime(quota, at, inFlight, options.share)));
}

/** Returns the time until which no request is sent; null if requests are allowed. */
export function closedUntil({ quotas, pausedUntil }: Budget, at: number): number | null {
  const until = Math.max(pausedUntil, ...[...quotas.values()].map((quota) => quota.blockedUntil));
  return until > at ? until : null;
}

/** Returns the requests per second to send now; infinite while no limit is known. */
function getRate({ quotas, estimate, options }: Budget, at: number): number {
  const { share } = options;
  const rates = [...quotas.values()].map((quota) => getPace(quota, at, share));
  return Math.min(...rates, (configuredRate(options) ?? Infinity) * share, getAllowedRate(estimate, share, at));
}

/** Returns the lowest known rate limit in requests per second; null if none is known. */
export function allowedRate({ quotas, estimate, options }: Budget): number | null {
  const rates = [...[...quotas.values()].map(getNominalRate), configuredRate(options), estimate.rate];
  const known = rates.filter((rate) => rate !== null);
  return known.length === 0 ? null : Math.min(...known);
}

/** Returns the rate limit in profile and settings, in requests per second; null if they have none. */
function configuredRate({ dialect, requestsPerSecond }: BudgetOptions): number | null {
  const known = dialect.known_limits.map((limit) => (limit.requests / limit.window_ms) * 1_000);
  if (requestsPerSecond !== undefined) known.push(requestsPerSecond);
  return known.length === 0 ? null : Math.min(...known);
}

/** True for lanes that leave some slots free while live work is in progress. */
export function isYielding(lane: Lane): boolean {
  return lane === 'backfill' || lane === 'bulk';
}

/** True if a yielding lane has used its slots: those of all processes, or the share of this one. */
export function isOverShare({ open, slots, seen, liveAt }: Budget, owner: string, lane: Lane, now: number): boolean {
  if (!isYielding(lane)) return false;
  const all = Math.floor(slots);
  const yielding = [...open.values()].filter((request) => isYielding(request.lane));
  const reserved = liveAt !== null && now - liveAt < LIVE_PERIOD_MS ? Math.floor(all * RESERVED_FRACTION) : 0;
  const ofProcess = yielding.filter((request) => request.owner === owner);
  return yielding.length >= all - reserved || ofProcess.length >= Math.ceil(all / Math.max(1, seen.size));
}

/** Records the start of a request; returns the number by which its end is recorded. */
export function noteStart(budget: Budget, owner: string, lane: Lane, at: number): number {
  // Catch up on time lost by a stall or slow answers, but not on time in which a quota delayed requests.
  const earliest = Math.max(at - MAX_CATCH_UP_MS, Math.min(budget.shutAt, at));
  budget.due = budget.probing ? at : Math.max(budget.due + 1_000 / getRate(budget, at), earliest);
  budget.started += 1;
  budget.open.set(budget.started, { owner, lane, at });
  if (!isYielding(lane)) budget.liveAt = at;
  for (const quota of budget.quotas.values()) quota.spendable -= 1;
  return budget.started;
}

/** Records the end of a request of this process, and the limits that its answer states. */
export function recordEnd(budget: Budget, owner: string, { request, startedAt, answer }: EndedRequest): void {
  const known = budget.open.get(request);
  // After a crash of the database, the number may belong to another process.
  if (known !== undefined && known.owner !== owner) return;
  // A process considered dead may still report an answer.
  const sentAt = known?.at ?? startedAt;
  const wasOpen = budget.open.size;
  budget.open.delete(request);
  if (answer === null) return;
  learnQuotas(budget, request, sentAt, answer);
  if (answer.limited) recordRefusal(budget, answer, sentAt);
  else recordSuccess(budget, answer.at, sentAt, wasOpen);
  if (answer.limits.waitMs) applyRequestedWait(budget, answer, answer.limits.waitMs);
}

function learnQuotas(budget: Budget, request: number, sentAt: number, { limits, at }: BudgetAnswer): void {
  const { quotas, started } = budget;
  const earlierOpen = [...budget.open.keys()].filter((other) => other < request).length;
  for (const hint of limits.quotas) {
    const quota = quotas.get(hint.name) ?? newQuota(hint.name, hint.requests);
    quotas.set(hint.name, quota);
    learnQuota(quota, hint, { request, started, earlierOpen, sentAt, at });
  }
  const named = new Set(limits.quotas.map(({ name }) => name));
  for (const quota of quotas.values()) {
    if (named.has(quota.name)) continue;
    // A request counts only against the quotas in its answer: return it to the others.
    if (named.size > 0) quota.spendable = Math.min(quota.spendable + 1, quota.remaining ?? 0);
    // The service may no longer have a limit, or may have stated it by mistake.
    const silence = named.size > 0 ? FORGET_MS : Math.max(FORGET_MS, quota.windowMs ?? quota.longestResetMs);
    if (at > Math.max(quota.answeredAt + silence, quota.blockedUntil)) quotas.delete(quota.name);
  }
}

/** Records a success, which ends probing unless its request was sent before the current pause. */
function recordSuccess(budget: Budget, at: number, sentAt: number, inFlight: number): void {
  noteSuccess(budget.estimate, at);
  // Additive increase, while the slots are used: one per round of answers.
  if (inFlight >= Math.floor(budget.slots) - Math.floor(budget.slots * RESERVED_FRACTION)) {
    budget.slots = Math.min(maxSlots(budget), budget.slots + (budget.isRampingUp ? 1 : 1 / budget.slots));
  }
  if (sentAt < budget.pausedUntil) return;
  budget.probing = false;
  budget.refusals = 0;
}

function maxSlots({ options, seen }: Budget): number {
  return Math.min(options.concurrency * Math.max(1, seen.size), options.concurrencyTotal ?? Infinity);
}

/** Records a 429. If an exhausted quota explains it, the quota blocks; else the rate was too high and is decreased. */
function recordRefusal(budget: Budget, answer: BudgetAnswer, sentAt: number): void {
  const isExplained = answer.limits.quotas.some((quota) => quota.remaining === 0);
  // Requests in flight at the first 429 are refused for the same reason: together they count once.
  if (sentAt >= budget.refusedAt) {
    budget.refusals += 1;
    budget.refusedAt = answer.at;
    budget.slots = Math.max(1, Math.floor(budget.slots * SLOTS_DECREASE));
    budget.isRampingUp = false;
  }
  if (!isExplained) noteRejection(budget.estimate, budget.options.share, answer.at, sentAt);
  const isWaitKnown = Boolean(answer.limits.waitMs) || (isExplained && closedUntil(budget, answer.at) !== null);
  pause(budget, answer.at + (isWaitKnown ? MIN_PAUSE_MS : getBackoffPause(budget)));
}

/** Returns the pause after a 429 that requests no wait: it doubles with each consecutive one. */
function getBackoffPause({ options, refusals }: Budget): number {
  const min = Math.max(MIN_PAUSE_MS, options.dialect.limited_wait_ms);
  return Math.min(min * 2 ** (refusals - 1), Math.max(MAX_BACKOFF_PAUSE_MS, 8 * min));
}

/** Pauses for the requested wait, which overrides the resets of quotas in the same response. */
function applyRequestedWait(budget: Budget, answer: BudgetAnswer, waitMs: number): void {
  // Jitter, because other clients were given the same time.
  const jitter = budget.options.random() * Math.min(waitMs / 10, MAX_JITTER_MS);
  pause(budget, answer.at + waitMs + jitter);
  for (const hint of answer.limits.quotas) {
    const quota = budget.quotas.get(hint.name);
    if (quota && hint.remaining === 0) quota.blockedUntil = answer.at + waitMs;
  }
}

/** Pauses all requests; afterwards one request tests whether requests are accepted again. */
function pause(budget: Budget, until: number): void {
  budget.pausedUntil = Math.max(budget.pausedUntil, until);
  budget.probing = true;
}

/**
 * Records the heartbeat of a process that shares the budget. Removes dead processes with their requests, and requests of
 * this process that it does not know. Returns true if its last heartbeat is so old that this one must be stored.
 */
export function recordHeartbeat(
  budget: Budget,
  { owner, isKnown }: { owner: string; isKnown: (request: number) => boolean },
  now: number,
  intervalMs: number,
): boolean {
  const { seen, open } = budget;
  const isDue = now - (seen.get(owner) ?? Number.NEGATIVE_INFINITY) >= intervalMs;
  for (const [other, at] of seen) if (now - at > MEMBER_TIMEOUT_MS) seen.delete(other);
  seen.set(owner, now);
  for (const [request, holder] of open) {
    if (holder.owner === owner ? !isKnown(request) : !seen.has(holder.owner)) open.delete(request);
  }
  budget.slots = Math.min(budget.slots, maxSlots(budget));
  return isDue;
}
