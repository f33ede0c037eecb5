// Computes how fast requests may be sent. If the answers state a quota (100 requests per minute, 40 remain), `Quota` spreads
// the remaining requests over the window, so that none is refused. If they state none, `RateEstimate` finds the limit by
// the 429s. `budget.ts` calls both before each request, and after each answer. `share` is the part of the limit that the
// user allows (0 to 1), `at` the current time, `open` the number of requests in flight.
import { LONGEST_WAIT_MS, type QuotaHint } from './answer-limits.ts';

/** One quota that the answers of the service state. Times are milliseconds of the budget's clock. */
export interface Quota {
  name: string;
  limit: number;
  /** The window's length as the service states it; null if it does not. */
  windowMs: number | null;
  /** True if it counts requests; false for anything else, such as bytes: then it only matters when exhausted. */
  requests: boolean;
  /** `remaining` of the newest answer; null if the service does not state it. */
  remaining: number | null;
  /** Requests that may be sent now: `remaining` less the requests that the service had perhaps not counted yet. */
  spendable: number;
  /** The earliest stated end of the current window. */
  resetAt: number | null;
  /** Nothing may be sent before this. */
  blockedUntil: number;
  /** The number of the newest request whose answer states this quota, and when that answer came. */
  newest: number;
  answeredAt: number;
  /** The longest time to a reset that was stated; used if the window's length is unknown. */
  longestResetMs: number;
  /** The last answers in order of arrival. */
  lately: { request: number; remaining: number; at: number }[];
}

/** The position of an answered request among the others of its budget: answers may come in another order. */
export interface Position {
  /** The number of the request, counted from 1. */
  request: number;
  /** The number of all requests so far. */
  started: number;
  /** The number of earlier requests that are not answered yet. */
  earlierOpen: number;
  /** When it was sent, and when its answer came. */
  sentAt: number;
  at: number;
}

/** Below this length, a reset in whole seconds is too coarse to pace by. */
const LONG_WINDOW_MS = 5_000;
/** A quota with a longer window, such as a day, is not paced: it is used until it is exhausted. */
const MAX_PACED_WINDOW_MS = 3_600_000;
/** Requests per long window that test whether an exhausted quota was refilled. */
const PROBES_PER_WINDOW = 40;
/** The same for a short window that has just begun: the part of it after which one request is sent without an answer. */
const SILENCE_FRACTION = 0.15;
/** The maximum rate as a multiple of the average rate, which is the limit divided by the window. */
const MAX_ABOVE_NOMINAL = 1.15;
/** A full quota is used faster than the average by half of this fraction, an empty one slower by half of it. */
const LEVEL_CORRECTION = 0.05;

/** Creates a quota before its first statement. */
export function newQuota(name: string, requests = true): Quota {
  return {
    name,
    limit: 0,
    windowMs: null,
    requests,
    remaining: null,
    spendable: 0,
    resetAt: null,
    blockedUntil: 0,
    newest: 0,
    answeredAt: 0,
    longestResetMs: 1_000,
    lately: [],
  };
}

/** Updates the quota from a response. Responses may arrive in another order than the service counted them. */
export function learnQuota(quota: Quota, hint: QuotaHint, position: Position): void {
  quota.limit = hint.limit ?? Math.max(quota.limit, hint.remaining ?? 0);
  const refillMs = hint.refill ? Math.min((quota.limit / hint.refill) * 1_000, LONGEST_WAIT_MS) || null : null;
  quota.windowMs = hint.windowMs ?? refillMs ?? quota.windowMs;
  quota.longestResetMs = Math.max(quota.longestResetMs, hint.resetMs ?? 0);
  if (hint.remaining === 0) blockQuota(quota, hint, position.at);
  if (hint.remaining === null) return;
  if (position.request > quota.newest) useNewestAnswer(quota, hint, hint.remaining, position);
  else if (quota.remaining !== null && hint.remaining > quota.remaining) quota.spendable += 1;
  quota.lately.push({ request: position.request, remaining: hint.remaining, at: position.at });
  if (quota.lately.length > MAX_KEPT_ANSWERS) quota.lately.shift();
}

/** More than the maximum number of requests in flight. */
const MAX_KEPT_ANSWERS = 64;

/** Counts the earlier requests that the service has counted after this one: their answers came with less remaining. */
function countOvertaken({ lately }: Quota, remaining: number, { request, sentAt }: Position): number {
  return lately.filter((other) => other.request < request && other.at >= sentAt && other.remaining < remaining).length;
}

/** Blocks an exhausted quota until its stated reset, or for its window. */
function blockQuota(quota: Quota, hint: QuotaHint, at: number): void {
  const wait = hint.resetMs ?? quota.windowMs ?? (quota.requests ? quota.longestResetMs : 0);
  quota.blockedUntil = Math.max(quota.blockedUntil, at + wait);
}

function useNewestAnswer(quota: Quota, hint: QuotaHint, remaining: number, position: Position): void {
  // If much more remains than expected after the requests since the newest answer, a new window has begun.
  const gain = quota.remaining === null ? 0 : remaining - quota.remaining + position.request - quota.newest;
  const isNewWindow = gain > quota.limit / 2;
  quota.resetAt = earliestReset(isNewWindow ? null : quota.resetAt, hint.resetMs, position.at);
  quota.remaining = remaining;
  const uncounted = position.started - position.request + position.earlierOpen;
  quota.spendable = remaining - uncounted - countOvertaken(quota, remaining, position);
  quota.newest = position.request;
  quota.answeredAt = position.at;
}

/** Returns the earliest stated end of a window, which is the most exact one, because services round up to seconds. */
function earliestReset(before: number | null, resetMs: number | null, at: number): number | null {
  if (resetMs === null) return null;
  return before !== null && before > at ? Math.min(before, at + resetMs) : at + resetMs;
}

/** Returns the average requests per second that the quota allows; null if unknown. */
export function getNominalRate(quota: Quota): number | null {
  if (!quota.requests || quota.limit === 0) return null;
  return (quota.limit / getWindowMs(quota)) * 1_000;
}

/** Returns the stated window, or the longest time to a reset. */
function getWindowMs({ windowMs, longestResetMs }: Quota): number {
  return windowMs ?? longestResetMs;
}

/** Returns the requests per second to send now; infinite if the quota is used without a pace until it is exhausted. */
export function getPace(quota: Quota, at: number, share: number): number {
  const nominal = getNominalRate(quota);
  const windowMs = getWindowMs(quota);
  if (nominal === null || windowMs > MAX_PACED_WINDOW_MS) return Number.POSITIVE_INFINITY;
  const remaining = getRemaining(quota, at);
  if (quota.windowMs === null) {
    if (windowMs >= LONG_WINDOW_MS) return share * spreadRate(quota, at, remaining, share < 1 ? 1 : MAX_ABOVE_NOMINAL);
    if (share === 1) return Number.POSITIVE_INFINITY;
  }
  // Slightly faster above half of the limit and slower below it, so that little remains at the end of a window.
  const correction = share < 1 ? 0 : LEVEL_CORRECTION * (remaining / quota.limit - 0.5);
  return share * nominal * Math.min(MAX_ABOVE_NOMINAL, 1 + correction);
}

/** Spreads the remaining requests over the time until the reset. */
function spreadRate(quota: Quota, at: number, remaining: number, maxFactor: number): number {
  const nominal = getNominalRate(quota) ?? 0;
  const untilResetMs = (quota.resetAt ?? at) - at;
  if (untilResetMs <= 0) return nominal;
  const min = PROBES_PER_WINDOW / getWindowMs(quota);
  return Math.min(Math.max(remaining / untilResetMs, min) * 1_000, nominal * maxFactor);
}

/** Returns the remaining requests; all of them if the window has ended since the last answer. */
function getRemaining(quota: Quota, at: number): number {
  const hasEnded = quota.resetAt !== null && at >= quota.resetAt;
  return quota.remaining === null || hasEnded ? quota.limit : Math.max(0, quota.spendable);
}

/** The last request of a limit from this number on is not used, so that the service rarely states `remaining: 0`. */
const RESERVE_FROM = 10;
const RESERVE_FROM_SHORT = 3;

/** Returns the time from which the quota allows a request; infinite until an answer to a request in flight comes. */
export function getOpenTime(quota: Quota, at: number, open: number, share: number): number {
  if (at < quota.blockedUntil) return quota.blockedUntil;
  if (!quota.requests || quota.remaining === null) return at;
  const reserve = getReserve(quota, share);
  if (quota.spendable >= 1 + reserve) return at;
  if (open > 0) return Number.POSITIVE_INFINITY;
  const probeAt = quota.answeredAt + getMaxSilenceMs(quota, reserve);
  return Math.min(probeAt, Math.max(quota.resetAt ?? Number.POSITIVE_INFINITY, at));
}

/** Returns how many requests are not used: the last one, and in an unpaced quota those beyond the share. */
function getReserve(quota: Quota, share: number): number {
  const windowMs = getWindowMs(quota);
  const last = quota.limit >= (windowMs < LONG_WINDOW_MS ? RESERVE_FROM_SHORT : RESERVE_FROM) ? 1 : 0;
  return windowMs > MAX_PACED_WINDOW_MS ? Math.max(last, Math.floor(quota.limit * (1 - share))) : last;
}

/** Returns after how long without an answer a request tests whether the quota was refilled. */
function getMaxSilenceMs(quota: Quota, reserve: number): number {
  const interval = 1_000 / Math.max(getNominalRate(quota) ?? 1, 1);
  const windowMs = getWindowMs(quota);
  // The reserve is for other clients: no request tests it before the reset.
  if (reserve > 1) return quota.resetAt === null ? windowMs : Number.POSITIVE_INFINITY;
  if (quota.spendable < 1) return Math.max(1_000, interval);
  if (windowMs >= LONG_WINDOW_MS) return Math.max(2 * interval, windowMs / PROBES_PER_WINDOW);
  const untilResetMs = (quota.resetAt ?? Number.POSITIVE_INFINITY) - quota.answeredAt;
  return untilResetMs < windowMs / 2 ? untilResetMs : Math.max(2 * interval, windowMs * SILENCE_FRACTION);
}

/**
 * Estimates the rate limit of a service that states none by AIMD: the rate grows while requests succeed and falls on a
 * 429. After the first 429 it grows exponentially until the second one, as in TCP slow start. If only a share may be used,
 * a measured rate does not change for a while, because growth would use the whole limit. Times as in `Quota`.
 */
export interface RateEstimate {
  /** Requests per second; null while no limit is known. */
  rate: number | null;
  /** The rate after the last decrease, which scales the additive increase. */
  base: number;
  isSlowStart: boolean;
  /** When the rate was last decreased. */
  cutAt: number;
  /** Until then only the share of the rate is used, and the rate does not change. */
  heldUntil: number;
  /** Requests accepted since the last decrease. */
  accepted: number;
  /** When the requests of the last second were accepted. */
  lately: number[];
}

const DECREASE = 0.9;
/** A decrease at most halves the rate, because few accepted requests do not mean a low limit. */
const MAX_DECREASE = 0.5;
/** Part of `base` by which the rate grows in each second of use. */
const INCREASE_PER_SECOND = 0.02;
/** The increase in requests per second for each success in slow start: the rate doubles in about 1.2 s. */
const SLOW_START_INCREASE = 0.6;
/** The same after `RAISED_AFTER_MS` without a 429, when the limit was probably raised: the rate grows by 10 % per second. */
const RAISED_INCREASE = 0.1;
const RAISED_AFTER_MS = 15_000;
/** At this multiple of `base`, the limit is considered removed. */
const FORGET_AT = 8;
const MIN_PER_SECOND = 0.2;
/** A rate measured over less time than this is not held. */
const MIN_MEASURED_MS = 5_000;
const HOLD_MS = 600_000;

/** Creates an estimate from the rate of an earlier process; null for none. */
export function newRateEstimate(rate: number | null, share: number, at: number): RateEstimate {
  const heldUntil = rate !== null && share < 1 ? at + HOLD_MS : 0;
  return { rate, base: rate ?? 0, isSlowStart: false, cutAt: at, heldUntil, accepted: 0, lately: [] };
}

/** Returns the allowed requests per second; infinite while no limit is known. */
export function getAllowedRate({ rate, heldUntil }: RateEstimate, share: number, at: number): number {
  return rate === null ? Number.POSITIVE_INFINITY : at < heldUntil ? share * rate : rate;
}

/** Increases the rate after a success. */
export function noteSuccess(estimate: RateEstimate, at: number): void {
  const { rate, base, cutAt, heldUntil, isSlowStart, lately } = estimate;
  estimate.accepted += 1;
  lately.push(at);
  while ((lately[0] ?? at) < at - 1_000) lately.shift();
  if (rate === null || at < heldUntil) return;
  const additive = at - cutAt > RAISED_AFTER_MS ? RAISED_INCREASE : (INCREASE_PER_SECOND * base) / rate;
  const grown = rate + (isSlowStart ? SLOW_START_INCREASE : additive);
  estimate.rate = grown > FORGET_AT * base ? null : grown;
}

/** Decreases the rate after a 429, once for all requests that were in flight together. */
export function noteRejection(estimate: RateEstimate, share: number, at: number, sentAt: number): void {
  const { rate, cutAt, accepted, lately } = estimate;
  if (rate !== null && sentAt < cutAt) return;
  // If nothing was accepted since the last decrease, the rate is not the reason for the 429.
  if (rate !== null && accepted > 0) decrease(estimate, rate, share, at);
  estimate.isSlowStart = rate === null;
  estimate.rate ??= Math.max(1, lately.length);
  Object.assign(estimate, { base: estimate.rate, cutAt: at, accepted: 0 });
}

function decrease(estimate: RateEstimate, rate: number, share: number, at: number): void {
  const elapsedMs = Math.max(1_000, at - estimate.cutAt);
  // The token bucket of the service is empty at each 429: the requests accepted in between are its refill.
  const isHeld = share < 1 && elapsedMs >= MIN_MEASURED_MS;
  const measured = Math.min(rate, (estimate.accepted / elapsedMs) * 1_000);
  const factor = isHeld ? 1 : DECREASE;
  estimate.rate = Math.max(MIN_PER_SECOND, rate * MAX_DECREASE, measured * factor);
  estimate.heldUntil = isHeld ? at + HOLD_MS : 0;
}
