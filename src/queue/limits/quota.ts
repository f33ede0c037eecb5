import type { QuotaHint } from './answer-limits.ts';
import { LONGEST_WAIT_MS } from './rate-time.ts';
import { lowestLevel, noteLevel, refillRate, type RefillMeter } from './refill-meter.ts';

/** One quota of the service as far as its answers tell. Times are milliseconds of the monotonic clock. */
export interface Quota {
  name: string;
  limit: number;
  /** The window's length as the service states it; null if it does not. */
  windowMs: number | null;
  requests: boolean;
  /** `remaining` of the newest answer; null if the service does not say. */
  remaining: number | null;
  /** Requests that may surely be sent now: `remaining` less all that may not be counted in it yet. */
  spendable: number;
  /** The earliest end of the window that answers of this window stated. */
  resetAt: number | null;
  /** Requests that came back between two answers, smoothed: about 0 in a fixed window, about 1 where requests trickle back. */
  trickle: number;
  /** Nothing may be sent before this. */
  blockedUntil: number;
  /** Number of the newest request whose answer spoke of this quota, and when that answer came. */
  newest: number;
  answeredAt: number;
  /** The longest time to a reset that was stated; stands in for the window's length. */
  longestResetMs: number;
  /** Requests per second found by watching the level; only if the service states no window. */
  learned: number | null;
  /** True once the level was seen to give way: before that `learned` is only a lower bound. */
  proven: boolean;
  meter: RefillMeter;
  /** The latest answers, as they came. */
  lately: { request: number; remaining: number; at: number }[];
}

/** The answered request among the others of its budget. */
export interface Position {
  /** Number of the request, counted from 1. */
  request: number;
  /** Requests started so far. */
  started: number;
  /** Requests started earlier than this one and not answered yet. */
  earlierOpen: number;
  /** When it was sent, and when its answer came. */
  sentAt: number;
  at: number;
}

/** Windows from here on are paced by what remains until their end; below it, whole seconds are too coarse for that. */
export const LONG_WINDOW_MS = 5_000;
/** From here on a quota is planned by its period, with a reserve for live lanes. */
const PLANNED_FROM_MS = 7_200_000;
/** Even if no request was seen to come back, the service is asked now and then whether some do. */
const LOWEST_PER_SECOND = 0.2;
const TRICKLE_SMOOTHING = 0.1;
const TRICKLES = 0.4;
/** However little seems to be left of a long window: so often the service is asked whether some has come back. */
export const PROBES_PER_WINDOW = 40;
const SHORT_SILENCE = 0.15;
/** Long enough to see that a service gives back at least as fast as it is asked. */
const GLANCE_MS = 300;

/** A quota before the first answer speaks of it. */
export function newQuota(name: string, requests = true): Quota {
  return {
    name,
    limit: 0,
    windowMs: null,
    requests,
    remaining: null,
    spendable: 0,
    resetAt: null,
    trickle: 0,
    blockedUntil: 0,
    newest: 0,
    answeredAt: 0,
    longestResetMs: 1_000,
    learned: null,
    proven: false,
    meter: { samples: [] },
    lately: [],
  };
}

/** Takes in what an answer says. Answers may come in another order than that in which the service counted them. */
export function learn(quota: Quota, hint: QuotaHint, position: Position): void {
  quota.limit = hint.limit ?? Math.max(quota.limit, hint.remaining ?? 0);
  const refillMs = hint.refill ? Math.min((quota.limit / hint.refill) * 1_000, LONGEST_WAIT_MS) || null : null;
  quota.windowMs = hint.windowMs ?? refillMs ?? quota.windowMs;
  quota.longestResetMs = Math.max(quota.longestResetMs, hint.resetMs ?? 0);
  if (hint.remaining === 0) block(quota, hint, position.at);
  if (hint.remaining === null) return;
  if (position.request > quota.newest) takeNewest(quota, hint, hint.remaining, position);
  else if (quota.remaining !== null && hint.remaining > quota.remaining) quota.spendable += 1;
  quota.lately.push({ request: position.request, remaining: hint.remaining, at: position.at });
  if (quota.lately.length > KEPT_ANSWERS) quota.lately.shift();
}

/** More than can be under way at once. */
const KEPT_ANSWERS = 64;

/** Earlier requests that were answered while this one was under way, and by their level were counted after it. */
function overtaken({ lately }: Quota, remaining: number, { request, sentAt }: Position): number {
  return lately.filter((other) => other.request < request && other.at >= sentAt && other.remaining < remaining).length;
}

/** Nothing is left: the stated time has to pass, or the window if none is stated. */
function block(quota: Quota, hint: QuotaHint, at: number): void {
  const wait = hint.resetMs ?? quota.windowMs ?? (quota.requests ? quota.longestResetMs : 0);
  quota.blockedUntil = Math.max(quota.blockedUntil, at + wait);
}

function takeNewest(quota: Quota, hint: QuotaHint, remaining: number, position: Position): void {
  const gain = quota.remaining === null ? 0 : remaining - quota.remaining + position.request - quota.newest;
  const renewed = gain > quota.limit / 2;
  if (!renewed) quota.trickle += TRICKLE_SMOOTHING * (Math.min(2, Math.max(-2, gain)) - quota.trickle);
  quota.resetAt = earliestReset(renewed ? null : quota.resetAt, hint.resetMs, position.at);
  quota.remaining = remaining;
  const uncounted = position.started - position.request + position.earlierOpen;
  quota.spendable = remaining - uncounted - overtaken(quota, remaining, position);
  quota.newest = position.request;
  quota.answeredAt = position.at;
  noteLevel(quota.meter, position.at, remaining, position.request, 2 * quota.longestResetMs);
  if (quota.windowMs === null) measure(quota, remaining, hint.resetMs, position.at);
}

/** Whole seconds are rounded up, so of all that was said about one window's end the earliest is the nearest. */
function earliestReset(known: number | null, resetMs: number | null, at: number): number | null {
  if (resetMs === null) return null;
  return known !== null && known > at ? Math.min(known, at + resetMs) : at + resetMs;
}

/** A level that gives way shows the refill rate itself, one that stays high only that there is more. */
function measure(quota: Quota, remaining: number, resetMs: number | null, at: number): void {
  const low = lowestLevel(quota.meter, at);
  const givesWay = low !== null && low < quota.limit / 2;
  const rate = refillRate(
    quota.meter,
    givesWay ? 'whole' : 'latest',
    givesWay ? 1.1 * quota.longestResetMs : GLANCE_MS,
  );
  // That nothing is left says when to stop, not how much comes back.
  if (remaining > 0) quota.learned ??= remaining / (Math.max(resetMs ?? 0, 1_000) / 1_000);
  if (rate === null) return;
  quota.proven ||= givesWay;
  quota.learned = givesWay ? rate : Math.max(quota.learned ?? 0, rate);
}

/** Requests per second that the quota allows over its window; null if that is not known. */
export function nominalRate(quota: Quota): number | null {
  if (!quota.requests || quota.limit === 0) return null;
  if (quota.windowMs !== null) return (quota.limit / quota.windowMs) * 1_000;
  if (quota.longestResetMs >= LONG_WINDOW_MS) return (quota.limit / quota.longestResetMs) * 1_000;
  return quota.learned === null ? null : Math.max(quota.learned, LOWEST_PER_SECOND);
}

/** Milliseconds; of a window whose length is not stated the longest time to its end. */
export function windowOf({ windowMs, longestResetMs }: Quota): number {
  return windowMs ?? longestResetMs;
}

/** True for a quota by day, by month, or for hours. */
export function isLong(quota: Quota): boolean {
  return quota.requests && quota.limit > 0 && windowOf(quota) >= PLANNED_FROM_MS;
}

/** True if requests come back one by one rather than all at once. */
export function trickles({ trickle }: Quota): boolean {
  return trickle > TRICKLES;
}

/** The requests left; all of them if the window has ended since the last answer. */
export function levelOf(quota: Quota, at: number): number {
  const renewed = quota.resetAt !== null && at >= quota.resetAt;
  return quota.remaining === null || renewed ? quota.limit : Math.max(0, quota.spendable);
}

/** The last request of a quota is left alone where it matters little, so that `remaining: 0` is rarely seen. */
const RESERVE_FROM = 10;
const RESERVE_FROM_SHORT = 3;

/** From when on the quota lets the next request through; infinite while only an answer can tell. */
export function opensAt(quota: Quota, at: number, open: number): number {
  if (at < quota.blockedUntil) return quota.blockedUntil;
  if (!quota.requests || quota.remaining === null) return at;
  const short = windowOf(quota) < LONG_WINDOW_MS;
  const reserve = quota.limit >= (short ? RESERVE_FROM_SHORT : RESERVE_FROM) ? 1 : 0;
  if (quota.spendable >= 1 + reserve) return at;
  if (open > 0) return Number.POSITIVE_INFINITY;
  return Math.min(quota.answeredAt + longestSilence(quota), Math.max(quota.resetAt ?? Number.POSITIVE_INFINITY, at));
}

/** How long no news may last before the reserve is touched, or a level is doubted that our own counting made low. */
function longestSilence(quota: Quota): number {
  const interval = 1_000 / Math.max(nominalRate(quota) ?? 1, 1);
  if (quota.spendable < 1) return Math.max(1_000, interval);
  if (trickles(quota)) return 2 * interval;
  const windowMs = windowOf(quota);
  if (windowMs >= LONG_WINDOW_MS) return Math.max(2 * interval, windowMs / PROBES_PER_WINDOW);
  const left = (quota.resetAt ?? Number.POSITIVE_INFINITY) - quota.answeredAt;
  return left < windowMs / 2 ? left : Math.max(2 * interval, windowMs * SHORT_SILENCE);
}
