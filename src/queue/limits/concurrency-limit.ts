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

const DECREASE = 0.9;
/** A round that takes so many times the fastest one means that requests queue up at the service. */
const QUEUEING = 1.8;
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
  if (past !== null && latency > past.fastest + UNNOTICED_MS && latency > past.fastest * QUEUEING) {
    return current <= LEAST_WHEN_SLOW ? current : Math.max(LEAST_WHEN_SLOW, Math.floor(current * DECREASE));
  }
  return used ? Math.min(most, starting ? 2 * current : current + 1) : current;
}

function remembered(past: ConcurrencyLimit['past'], latency: number, at: number): ConcurrencyLimit['past'] {
  const forgotten = past === null ? latency : past.fastest * (1 + (FORGETTING * (at - past.at)) / 1_000);
  return { fastest: Math.min(latency, forgotten), at };
}

function newRound(): ConcurrencyLimit['round'] {
  return { sum: 0, answers: 0, pushedBack: false, used: false };
}
