/**
 * How many requests may be under way at once, found from their latency and from push-back: up by one per round of
 * answers (at the start doubled) while the limit is used and answers come no slower, down by a tenth when they come
 * clearly slower or are refused. Source: Vector's adaptive request concurrency (vectordotdev/vector, src/sinks/util/adaptive_concurrency),
 * and from TCP Vegas the comparison with the fastest round, without which a slow rise is taken for the normal case.
 */
export interface ConcurrencyLimit {
  current: number;
  /** What it may grow to; `boundBy` changes it. */
  most: number;
  /** True while it doubles: until it does not grow for the first time, or is no longer small. */
  starting: boolean;
  /** Latency of the rounds so far in milliseconds; null before the first. */
  past: Past | null;
  /** The answers since the limit was last computed. */
  round: { sum: number; answers: number; pushedBack: boolean; used: boolean };
}

interface Past {
  /** Exponentially smoothed, as is the variance. */
  mean: number;
  variance: number;
  /** The fastest round, slowly forgotten, and when that was last done. */
  fastest: number;
  at: number;
}

const SMOOTHING = 0.4;
const DEVIATIONS = 2.5;
const DECREASE = 0.9;
/** A round that takes so many times the fastest one means that requests queue up at the service. */
const QUEUEING = 2;
/** A rise up to this is our own process being busy as often as the service. */
const UNNOTICED_MS = 50;
/** The growth of the remembered fastest round, per second. */
const FORGETTING = 0.003;
/** Slow answers alone never leave fewer slots than this: some resources are slower than others by nature. */
const LEAST_WHEN_SLOW = 2;
const SHORTEST_ROUND = 4;
/** The same at the start, where the number doubles with every round: so few are a load for hardly any service. */
const SHORTEST_AT_START = 2;
const FEW = 8;
/** Part of the slots that may be kept for live lanes, and so counts as used. */
const NOT_ALWAYS_USABLE = 0.2;

export function newConcurrencyLimit(most: number): ConcurrencyLimit {
  return { current: 1, starting: true, most, past: null, round: newRound() };
}

/** From now on at most so many, as processes come and go. */
export function boundBy(limit: ConcurrencyLimit, most: number): void {
  limit.most = most;
  limit.current = Math.min(limit.current, most);
}

export function noteUnderWay(limit: ConcurrencyLimit, underWay: number): void {
  limit.round.used ||= underWay >= limit.current - Math.floor(limit.current * NOT_ALWAYS_USABLE);
}

/** Takes in one answer; a refused one has no latency worth knowing. */
export function noteAnswer(limit: ConcurrencyLimit, at: number, latencyMs: number, pushedBack: boolean): void {
  const { round } = limit;
  round.pushedBack ||= pushedBack;
  round.sum += pushedBack ? 0 : latencyMs;
  round.answers += pushedBack ? 0 : 1;
  if (pushedBack || round.answers >= Math.max(limit.starting ? SHORTEST_AT_START : SHORTEST_ROUND, limit.current))
    endRound(limit, at);
}

function endRound(limit: ConcurrencyLimit, at: number): void {
  const { sum, answers, pushedBack, used } = limit.round;
  const before = limit.current;
  const latency = answers === 0 ? null : sum / answers;
  if (pushedBack) limit.current = Math.max(1, Math.floor(limit.current * DECREASE));
  else if (latency !== null) limit.current = next(limit, latency, used);
  if (latency !== null && !pushedBack) limit.past = remembered(limit.past, latency, at);
  limit.starting &&= limit.current > before && limit.current < FEW;
  limit.round = newRound();
}

function next({ current, starting, most, past }: ConcurrencyLimit, latency: number, used: boolean): number {
  const swift = past === null || latency <= past.fastest + UNNOTICED_MS;
  if (!swift && (latency > past.fastest * QUEUEING || latency > past.mean + DEVIATIONS * deviation(past))) {
    return current <= LEAST_WHEN_SLOW ? current : Math.max(LEAST_WHEN_SLOW, Math.floor(current * DECREASE));
  }
  return used && (swift || latency <= past.mean) ? Math.min(most, starting ? 2 * current : current + 1) : current;
}

function deviation(past: Past): number {
  return Math.sqrt(past.variance);
}

function remembered(past: Past | null, latency: number, at: number): Past {
  if (past === null) return { mean: latency, variance: 0, fastest: latency, at };
  const off = latency - past.mean;
  return {
    mean: past.mean + SMOOTHING * off,
    variance: (1 - SMOOTHING) * (past.variance + SMOOTHING * off * off),
    fastest: Math.min(latency, past.fastest * (1 + (FORGETTING * (at - past.at)) / 1_000)),
    at,
  };
}

function newRound(): ConcurrencyLimit['round'] {
  return { sum: 0, answers: 0, pushedBack: false, used: false };
}
