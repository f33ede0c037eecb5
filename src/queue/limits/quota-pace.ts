import {
  isLong,
  levelOf,
  LONG_WINDOW_MS,
  nominalRate,
  PROBES_PER_WINDOW,
  trickles,
  windowOf,
  type Quota,
} from './quota.ts';
import { lowestLevel } from './refill-meter.ts';

/** Longer windows than this are not spread evenly while most of them is left. */
const LONGEST_SPREAD_MS = 3_600_000;
const SCARCE = 0.2;
/** The same of those that are planned by their period: live lanes need to be slow only at its end. */
const NEARLY_NOTHING = 0.05;

/** Requests per second at which to go on now. */
export function paceOf(quota: Quota, at: number, share: number): number {
  const nominal = nominalRate(quota);
  if (nominal === null) return Number.POSITIVE_INFINITY;
  const windowMs = windowOf(quota);
  const part = levelOf(quota, at) / quota.limit;
  if (isLong(quota) ? isPlenty(quota, part) : windowMs > LONGEST_SPREAD_MS && part > SCARCE)
    return Number.POSITIVE_INFINITY;
  if (windowMs >= LONG_WINDOW_MS && !trickles(quota) && quota.resetAt !== null)
    return share * spread(quota, at, nominal, share);
  if (quota.windowMs === null) return learnedPace(quota, at, nominal, share);
  return share * nominal * (share < 1 ? 1 : evenOut(part));
}

/** Where nobody says when a long quota comes back, what is left cannot be spread: it is kept by its plan alone. */
function isPlenty(quota: Quota, part: number): boolean {
  return part > NEARLY_NOTHING || (quota.resetAt === null && !trickles(quota));
}

/** A long fixed window: what is left over the time that is left, and never much more than the window's own rate. */
function spread(quota: Quota, at: number, nominal: number, share: number): number {
  const left = (quota.resetAt ?? at) - at;
  if (left <= 0) return nominal;
  const least = PROBES_PER_WINDOW / windowOf(quota);
  const even = Math.max(levelOf(quota, at) / left, least) * 1_000;
  return Math.min(even, nominal * (share < 1 ? 1 : MOST_ABOVE_NOMINAL));
}

const MOST_ABOVE_NOMINAL = 1.15;
const EVEN_OUT = 0.05;

/**
 * A little faster above half of the limit, a little slower below it. A fixed window then ends with next to nothing
 * left, a token bucket settles at that level, and a sliding window is hardly held back.
 */
function evenOut(level: number): number {
  return Math.min(MOST_ABOVE_NOMINAL, 1 + EVEN_OUT * (level - 0.5));
}

/** No window is stated: speed up while the level stays high, hold when it comes near the ground. */
function learnedPace(quota: Quota, at: number, nominal: number, share: number): number {
  if (!quota.proven) return nominal * 2;
  if (share < 1) return share * nominal;
  const low = lowestLevel(quota.meter, at) ?? quota.limit;
  const ground = Math.max(1, quota.limit / 50);
  const lift = Math.min(0.5, Math.max(-0.2, (low - ground) / quota.limit));
  return nominal * (1 + lift);
}
