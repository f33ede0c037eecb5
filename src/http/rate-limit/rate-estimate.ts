/**
 * The rate limit of a service that states none, found by AIMD: the rate grows while requests succeed and falls on a
 * 429. After the first 429 it grows exponentially until the second one, as in TCP slow start. If only a share may be
 * used, the rate of a measured limit is held for a while, because growth would end at the whole limit.
 * Times are milliseconds of the budget's clock.
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
/** A decrease at most halves the rate: a low demand before it says nothing about the limit. */
const MAX_DECREASE = 0.5;
/** Part of `base` by which the rate grows in each second of use. */
const INCREASE_PER_SECOND = 0.02;
/** Requests per second for each success in slow start: the rate doubles in about 1.2 s. */
const SLOW_START_INCREASE = 0.6;
/** The same after `RAISED_AFTER_MS` without a 429: the limit was raised, and the rate grows by 10 % per second. */
const RAISED_INCREASE = 0.1;
const RAISED_AFTER_MS = 15_000;
/** At this multiple of `base` the limit no longer exists. */
const FORGET_AT = 8;
const MIN_PER_SECOND = 0.2;
/** A rate measured over less time than this is not held. */
const MIN_MEASURED_MS = 5_000;
const HOLD_MS = 600_000;

/** `rate` is what an earlier process found; null for none. */
export function newRateEstimate(rate: number | null, share: number, at: number): RateEstimate {
  const heldUntil = rate !== null && share < 1 ? at + HOLD_MS : 0;
  return { rate, base: rate ?? 0, isSlowStart: false, cutAt: at, heldUntil, accepted: 0, lately: [] };
}

/** Requests per second that may be sent; infinite while no limit is known. */
export function getAllowedRate({ rate, heldUntil }: RateEstimate, share: number, at: number): number {
  return rate === null ? Number.POSITIVE_INFINITY : at < heldUntil ? share * rate : rate;
}

/** Increases the rate. */
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

/** Multiplicative decrease, once for all requests that were in flight together. */
export function noteRejection(estimate: RateEstimate, share: number, at: number, sentAt: number): void {
  const { rate, cutAt, accepted, lately } = estimate;
  if (rate !== null && sentAt < cutAt) return;
  // If nothing was accepted since the last decrease, the rate is not the reason.
  if (rate !== null && accepted > 0) decrease(estimate, rate, share, at);
  estimate.isSlowStart = rate === null;
  estimate.rate ??= Math.max(1, lately.length);
  Object.assign(estimate, { base: estimate.rate, cutAt: at, accepted: 0 });
}

function decrease(estimate: RateEstimate, rate: number, share: number, at: number): void {
  const elapsedMs = Math.max(1_000, at - estimate.cutAt);
  // A token bucket is empty at each 429, so the requests accepted in between are those that it gave back.
  const isHeld = share < 1 && elapsedMs >= MIN_MEASURED_MS;
  const measured = Math.min(rate, (estimate.accepted / elapsedMs) * 1_000);
  const factor = isHeld ? 1 : DECREASE;
  estimate.rate = Math.max(MIN_PER_SECOND, rate * MAX_DECREASE, measured * factor);
  estimate.heldUntil = isHeld ? at + HOLD_MS : 0;
}
