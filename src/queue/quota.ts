import type { QuotaHint } from './rate-headers.ts';
import { lowestLevel, noteLevel, refillRate, type RefillMeter } from './refill-meter.ts';

/** One quota of the service as far as its answers tell. Times are milliseconds of the monotonic clock. */
export interface Quota {
  name: string;
  limit: number;
  /** The window's length as the service states it; null where it does not. */
  windowMs: number | null;
  requests: boolean;
  /** `remaining` of the newest answer; null where the service does not say. */
  remaining: number | null;
  /** Requests that may surely be sent now: `remaining` less all that may not be counted in it yet. */
  spendable: number;
  resetAt: number | null;
  /** Nothing may be sent before this. */
  blockedUntil: number;
  /** Number of the newest request whose answer spoke of this quota, and when that answer came. */
  newest: number;
  answeredAt: number;
  /** The longest time to a reset that was stated; stands in for the window's length. */
  longestResetMs: number;
  /** Requests per second found by watching the level; only where the service states no window. */
  learned: number | null;
  /** True once the level was seen to give way: before that `learned` is only a lower bound. */
  proven: boolean;
  meter: RefillMeter;
}

/** What the budget knows about the request that was answered. */
export interface Position {
  /** Number of the request, counted from 1. */
  request: number;
  /** Requests started so far. */
  started: number;
  /** Requests started earlier than this one and not answered yet. */
  earlierOpen: number;
  at: number;
}

/** Windows from here on are paced by what remains until their end; below it, whole seconds are too coarse for that. */
const LONG_WINDOW_MS = 5_000;
/** Longer windows than this (a day, a month) are not spread evenly while most of them is left. */
const LONGEST_SPREAD_MS = 3_600_000;
const SCARCE = 0.2;

export function quotaFrom(hint: QuotaHint): Quota {
  return {
    name: hint.name,
    limit: hint.limit ?? hint.remaining ?? 0,
    windowMs: null,
    requests: hint.requests,
    remaining: null,
    spendable: 0,
    resetAt: null,
    blockedUntil: 0,
    newest: 0,
    answeredAt: 0,
    longestResetMs: 1_000,
    learned: null,
    proven: false,
    meter: { samples: [] },
  };
}

/** Takes in what an answer says. Answers may come in another order than that in which the service counted them. */
export function learn(quota: Quota, hint: QuotaHint, position: Position): void {
  quota.limit = hint.limit ?? Math.max(quota.limit, hint.remaining ?? 0);
  quota.windowMs = hint.windowMs ?? (hint.refill ? (quota.limit / hint.refill) * 1_000 : quota.windowMs);
  quota.longestResetMs = Math.max(quota.longestResetMs, hint.resetMs ?? 0);
  if (hint.remaining === 0) block(quota, hint, position.at);
  if (hint.remaining === null) return;
  if (position.request > quota.newest) takeNewest(quota, hint, hint.remaining, position);
  else if (quota.remaining !== null && hint.remaining > quota.remaining) quota.spendable += 1;
}

/** Nothing is left: the stated time has to pass, or the window where none is stated. */
function block(quota: Quota, hint: QuotaHint, at: number): void {
  const wait = hint.resetMs ?? quota.windowMs ?? (quota.requests ? quota.longestResetMs : 0);
  quota.blockedUntil = Math.max(quota.blockedUntil, at + wait);
}

function takeNewest(quota: Quota, hint: QuotaHint, remaining: number, position: Position): void {
  quota.remaining = remaining;
  quota.spendable = remaining - (position.started - position.request) - position.earlierOpen;
  quota.newest = position.request;
  quota.answeredAt = position.at;
  quota.resetAt = hint.resetMs === null ? null : position.at + hint.resetMs;
  noteLevel(quota.meter, position.at, remaining, position.request);
  if (quota.windowMs === null) measure(quota, remaining, hint.resetMs, position.at);
}

/** A level that gives way shows the refill rate itself, one that stays high only that there is more. */
function measure(quota: Quota, remaining: number, resetMs: number | null, at: number): void {
  const rate = refillRate(quota.meter);
  const low = lowestLevel(quota.meter, at);
  quota.learned ??= remaining / (Math.max(resetMs ?? 0, 1_000) / 1_000);
  if (rate === null || low === null) return;
  const givesWay = low < quota.limit / 2;
  quota.proven ||= givesWay;
  quota.learned = givesWay ? rate : Math.max(quota.learned, rate);
}

/** Requests per second that the quota allows over its window; null where that is not known. */
export function nominalRate(quota: Quota): number | null {
  if (!quota.requests || quota.limit === 0) return null;
  if (quota.windowMs !== null) return (quota.limit / quota.windowMs) * 1_000;
  if (quota.longestResetMs >= LONG_WINDOW_MS) return (quota.limit / quota.longestResetMs) * 1_000;
  return quota.learned;
}

/** Requests per second at which to go on now. */
export function paceOf(quota: Quota, at: number, share: number): number {
  const nominal = nominalRate(quota);
  if (nominal === null) return Number.POSITIVE_INFINITY;
  const renewed = quota.resetAt !== null && at >= quota.resetAt;
  const level = quota.remaining === null || renewed ? quota.limit : Math.max(0, quota.spendable);
  const windowMs = quota.windowMs ?? quota.longestResetMs;
  if (windowMs > LONGEST_SPREAD_MS && level > SCARCE * quota.limit) return Number.POSITIVE_INFINITY;
  if (windowMs >= LONG_WINDOW_MS) return share * spread(quota, at, level, nominal, share);
  if (quota.windowMs === null) return learnedPace(quota, at, nominal, share);
  return share * nominal * (share < 1 ? 1 : evenOut(level / quota.limit));
}

/** A long window: what is left over the time that is left, and never much more than the window's own rate. */
function spread(quota: Quota, at: number, level: number, nominal: number, share: number): number {
  const most = nominal * (share < 1 ? 1 : MOST_ABOVE_NOMINAL);
  if (quota.resetAt === null) return share < 1 ? nominal : nominal * evenOut(level / quota.limit);
  if (at >= quota.resetAt) return Math.min(most, nominal);
  // Stated resets are rounded up to whole seconds: half a second is the error to expect.
  const seconds = Math.max(0.5, (quota.resetAt - at) / 1_000 - 0.5);
  return Math.min(level / seconds, most);
}

const MOST_ABOVE_NOMINAL = 1.15;

/**
 * A little faster above a quarter of the limit, a little slower below it. A fixed window then ends with next to
 * nothing left, a token bucket settles at that level, and a sliding window is not held back.
 */
function evenOut(level: number): number {
  return Math.min(MOST_ABOVE_NOMINAL, 1 + 0.1 * (level - 0.25));
}

/** No window is stated: speed up while the level stays high, hold where it comes near the ground. */
function learnedPace(quota: Quota, at: number, nominal: number, share: number): number {
  if (share < 1 && quota.proven) return share * nominal;
  const low = lowestLevel(quota.meter, at) ?? quota.limit;
  const ground = Math.max(2, quota.limit / 20);
  const lift = Math.min(0.5, Math.max(-0.2, (low - ground) / quota.limit));
  return nominal * (1 + lift);
}

/** The last request of a quota is left alone where it matters little, so that `remaining: 0` is rarely seen. */
const RESERVE_FROM = 10;
/** After this many times of a request's own interval without news the reserve may be touched. */
const RESERVE_INTERVALS = 2;

/** From when on the quota lets the next request through; infinite while only an answer can tell. */
export function opensAt(quota: Quota, at: number, open: number): number {
  if (at < quota.blockedUntil) return quota.blockedUntil;
  if (!quota.requests || quota.remaining === null) return at;
  const reserve = quota.limit >= RESERVE_FROM ? 1 : 0;
  if (quota.spendable >= 1 + reserve) return at;
  if (open > 0) return Number.POSITIVE_INFINITY;
  const interval = 1_000 / (nominalRate(quota) ?? 1);
  const patience = quota.spendable >= 1 ? RESERVE_INTERVALS * interval : Math.max(1_000, interval);
  return Math.min(quota.answeredAt + patience, Math.max(quota.resetAt ?? Number.POSITIVE_INFINITY, at));
}
