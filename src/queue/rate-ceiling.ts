/**
 * A rate limit that the service does not state, found by running into it. The first collision only gives a guess, from
 * which the rate doubles until the next one. From then on: after a collision the rate drops below what was accepted
 * since the last one, comes back to it, dwells there, and only then tries for more, as TCP CUBIC does (RFC 9438).
 * Times are milliseconds of the monotonic clock.
 */
export interface RateCeiling {
  /** Requests per second that the service was seen to accept; null while no limit is known. */
  peak: number | null;
  /** True while `peak` is a guess from the first collision. */
  guessed: boolean;
  cutAt: number;
  /** Requests accepted since the last cut. */
  accepted: number;
  /** When the latest requests were accepted, the last second of them. */
  lately: number[];
}

/** How far the rate drops, and seconds until it is back where it was. */
const DROP = 0.1;
const BACK_AFTER_S = 20;
/** Growth beyond the peak: 60 % in ten seconds, and hardly any in the first three. */
const STEEPNESS = 6e-4;
/** From this multiple on the limit has vanished. */
const VANISHED = 8;
/** A guess doubles in this many seconds; growing like that overshoots, so that at the collision a part is taken back. */
const DOUBLES_IN_S = 1.5;
const OVERSHOOT = 0.9;
const LOWEST_PER_SECOND = 0.2;

export function newCeiling(peak: number | null, at: number): RateCeiling {
  return { peak, guessed: false, cutAt: at, accepted: 0, lately: [] };
}

/** Requests per second to stay under; infinite while no limit is known. */
export function ceilingAt(ceiling: RateCeiling, at: number): number {
  if (ceiling.peak === null) return Number.POSITIVE_INFINITY;
  const seconds = Math.max(0, at - ceiling.cutAt) / 1_000;
  const factor = ceiling.guessed ? 2 ** (seconds / DOUBLES_IN_S) : regained(seconds);
  return factor > VANISHED && !ceiling.guessed ? Number.POSITIVE_INFINITY : ceiling.peak * factor;
}

function regained(seconds: number): number {
  const past = seconds - BACK_AFTER_S;
  return past < 0 ? 1 + DROP * (past / BACK_AFTER_S) ** 3 : 1 + STEEPNESS * past ** 3;
}

export function noteAccepted(ceiling: RateCeiling, at: number): void {
  ceiling.accepted += 1;
  ceiling.lately.push(at);
  while ((ceiling.lately[0] ?? at) < at - 1_000) ceiling.lately.shift();
}

/** One collision with the limit; answers to requests that were sent before the last cut belong to the same one. */
export function noteLimited(ceiling: RateCeiling, at: number, sentAt: number): void {
  if (ceiling.peak !== null && sentAt < ceiling.cutAt) return;
  const known = ceilingAt(ceiling, at) !== Number.POSITIVE_INFINITY;
  ceiling.peak = Math.max(LOWEST_PER_SECOND, known ? acceptedRate(ceiling, at) : ceiling.lately.length);
  ceiling.guessed = !known;
  ceiling.cutAt = at;
  ceiling.accepted = 0;
}

/**
 * Between two collisions a bucket goes from empty to empty, so that what was accepted is what came back; a limiter
 * without a bucket lies at the rate of the collision itself. The truth is between the two, and nearer each time.
 */
function acceptedRate(ceiling: RateCeiling, at: number): number {
  const current = ceilingAt(ceiling, at);
  if (ceiling.guessed) return current * OVERSHOOT;
  const measured = (ceiling.accepted / Math.max(at - ceiling.cutAt, 1_000)) * 1_000;
  return (Math.min(current, measured) + current) / 2;
}
