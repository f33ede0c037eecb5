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
const RAISED_AFTER_MS = 20_000;
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
  const measured = Math.min(rate, (estimate.accepted / elapsedMs) * 1_000);
  const isHeld = share < 1 && elapsedMs >= MIN_MEASURED_MS;
  const factor = isHeld ? 1 : DECREASE;
  estimate.rate = Math.max(MIN_PER_SECOND, rate * MAX_DECREASE, measured * factor);
  estimate.heldUntil = isHeld ? at + HOLD_MS : 0;
}

/**
 * The number of requests in flight, found by AIMD from latency and rejections: it grows by one per round of responses
 * (at the start it doubles) while it is used, and falls by a tenth if responses take much longer than in the fastest
 * round, as in TCP Vegas, or are rejected.
 */
export interface ConcurrencyLimit {
  current: number;
  /** What it may grow to; `boundBy` changes it. */
  most: number;
  /** True while it doubles: until it does not grow for the first time, or is no longer small. */
  starting: boolean;
  /** Mean latency of the fastest round in milliseconds, which grows slowly, and when it last did; null before the first. */
  past: { fastest: number; at: number } | null;
  /** The answers since the limit was last computed. */
  round: { sum: number; answers: number; pushedBack: boolean; used: boolean };
}

/** A round that takes this many times the fastest one means that requests queue up at the service. */
const QUEUEING_FACTOR = 1.8;
/** A rise up to this is our own process being busy as often as the service. */
const IGNORED_RISE_MS = 50;
/** The growth of the remembered fastest round, per second. */
const DECAY_PER_SECOND = 0.003;
/** Slow answers alone never leave fewer slots than this: some resources are slower than others by nature. */
const MIN_SLOTS_WHEN_SLOW = 2;
const MIN_ROUND_ANSWERS = 4;
/** The same at the start, where the number doubles with every round: so small a load is safe for any service. */
const MIN_ROUND_ANSWERS_AT_START = 2;
const MAX_DOUBLED_SLOTS = 8;
/** Part of the slots that may be kept for live lanes, and so counts as used. */
const RESERVED_FRACTION = 0.2;

export function newConcurrencyLimit(most: number): ConcurrencyLimit {
  return { current: 1, starting: true, most, past: null, round: newRound() };
}

/** Sets the maximum, which depends on the number of processes. */
export function boundBy(limit: ConcurrencyLimit, most: number): void {
  limit.most = most;
  limit.current = Math.min(limit.current, most);
}

export function noteInFlight(limit: ConcurrencyLimit, inFlight: number): void {
  limit.round.used ||= inFlight >= limit.current - Math.floor(limit.current * RESERVED_FRACTION);
}

/** Adds one response; the latency of a refused one has no meaning. */
export function noteAnswer(limit: ConcurrencyLimit, at: number, latencyMs: number, pushedBack: boolean): void {
  const { round } = limit;
  round.pushedBack ||= pushedBack;
  round.sum += pushedBack ? 0 : latencyMs;
  round.answers += pushedBack ? 0 : 1;
  if (
    pushedBack ||
    round.answers >= Math.max(limit.starting ? MIN_ROUND_ANSWERS_AT_START : MIN_ROUND_ANSWERS, limit.current)
  )
    endRound(limit, at);
}

function endRound(limit: ConcurrencyLimit, at: number): void {
  const { sum, answers, pushedBack, used } = limit.round;
  const before = limit.current;
  const latency = answers === 0 ? null : sum / answers;
  if (pushedBack) limit.current = Math.max(1, Math.floor(limit.current * DECREASE));
  else if (latency !== null) limit.current = next(limit, latency, used);
  if (latency !== null && !pushedBack) limit.past = remembered(limit.past, latency, at);
  limit.starting &&= limit.current > before && limit.current < MAX_DOUBLED_SLOTS;
  limit.round = newRound();
}

function next({ current, starting, most, past }: ConcurrencyLimit, latency: number, used: boolean): number {
  if (past !== null && latency > past.fastest + IGNORED_RISE_MS && latency > past.fastest * QUEUEING_FACTOR) {
    return current <= MIN_SLOTS_WHEN_SLOW ? current : Math.max(MIN_SLOTS_WHEN_SLOW, Math.floor(current * DECREASE));
  }
  return used ? Math.min(most, starting ? 2 * current : current + 1) : current;
}

function remembered(past: ConcurrencyLimit['past'], latency: number, at: number): ConcurrencyLimit['past'] {
  const forgotten = past === null ? latency : past.fastest * (1 + (DECAY_PER_SECOND * (at - past.at)) / 1_000);
  return { fastest: Math.min(latency, forgotten), at };
}

function newRound(): ConcurrencyLimit['round'] {
  return { sum: 0, answers: 0, pushedBack: false, used: false };
}
