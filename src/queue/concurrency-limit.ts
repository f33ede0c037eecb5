/**
 * How many requests may be under way at once, found from their latency and from push-back: up by one per round trip
 * while the limit is used and answers come no slower, down by a tenth when they come clearly slower or are refused.
 * Source: Vector's adaptive request concurrency (vectordotdev/vector, src/sinks/util/adaptive_concurrency).
 */
export interface ConcurrencyLimit {
  current: number;
  readonly most: number;
  /** Smoothed round trip and its smoothed deviation in milliseconds; null before the first. */
  past: { mean: number; deviation: number } | null;
  /** What was seen since the limit was last looked at. */
  round: { since: number; sum: number; answers: number; pushedBack: boolean; used: boolean };
}

const SMOOTHING = 0.4;
const DEVIATIONS = 2.5;
/** Rises below this part of the mean are noise, however even the answers were before. */
const NOISE = 0.25;
const DECREASE = 0.9;
/** Part of the slots that may be kept for live lanes, and so counts as used. */
const NOT_ALWAYS_USABLE = 0.2;

export function newConcurrencyLimit(most: number, at: number): ConcurrencyLimit {
  return { current: 1, most, past: null, round: newRound(at) };
}

export function noteUnderWay(limit: ConcurrencyLimit, underWay: number): void {
  limit.round.used ||= underWay >= limit.current - Math.floor(limit.current * NOT_ALWAYS_USABLE);
}

/** Takes in one answer; a refused one has no latency worth knowing. */
export function noteAnswer(limit: ConcurrencyLimit, at: number, latencyMs: number, pushedBack: boolean): void {
  limit.round.pushedBack ||= pushedBack;
  if (!pushedBack) {
    limit.round.sum += latencyMs;
    limit.round.answers += 1;
  }
  if (at - limit.round.since >= (limit.past?.mean ?? 0)) endRound(limit, at);
}

function endRound(limit: ConcurrencyLimit, at: number): void {
  const { sum, answers, pushedBack, used } = limit.round;
  const latency = answers === 0 ? null : sum / answers;
  limit.current = Math.min(limit.most, next(limit, latency, pushedBack, used));
  if (latency !== null) limit.past = smoothed(limit.past, latency);
  limit.round = newRound(at);
}

function next(limit: ConcurrencyLimit, latency: number | null, pushedBack: boolean, used: boolean): number {
  const { current, past } = limit;
  const slower =
    latency !== null && past !== null && latency >= past.mean + Math.max(DEVIATIONS * past.deviation, NOISE * past.mean);
  if (pushedBack || slower) return Math.max(1, Math.floor(current * DECREASE));
  const even = latency !== null && (past === null || latency <= past.mean + Math.min(past.deviation, NOISE * past.mean));
  return used && even ? current + 1 : current;
}

function smoothed(past: ConcurrencyLimit['past'], latency: number): { mean: number; deviation: number } {
  if (past === null) return { mean: latency, deviation: 0 };
  const off = Math.abs(latency - past.mean);
  return {
    mean: past.mean + SMOOTHING * (latency - past.mean),
    deviation: past.deviation + SMOOTHING * (off - past.deviation),
  };
}

function newRound(at: number): ConcurrencyLimit['round'] {
  return { since: at, sum: 0, answers: 0, pushedBack: false, used: false };
}
