/**
 * A rate limit that the service does not state, found by running into it. After a "too many requests" the rate drops
 * below what was accepted since the last one, comes back to it, dwells there, and only then tries for more: the curve
 * of TCP CUBIC (RFC 9438). Times are milliseconds of the monotonic clock.
 */
export interface RateCeiling {
  /** Requests per second that the service was seen to accept; null while no limit is known. */
  peak: number | null;
  cutAt: number;
  /** Requests accepted since the last cut. */
  accepted: number;
  /** When the latest requests were accepted, the last second of them. */
  lately: number[];
}

/** Seconds until the rate is back where it was, and how steeply it grows from there. */
const BACK_AFTER_S = 10;
const STEEPNESS = 1e-4;
/** From this multiple on the limit has vanished. */
const VANISHED = 4;
const LOWEST_PER_SECOND = 0.2;

export function newCeiling(peak: number | null, at: number): RateCeiling {
  return { peak, cutAt: at, accepted: 0, lately: [] };
}

/** Requests per second to stay under; infinite while no limit is known. */
export function ceilingAt(ceiling: RateCeiling, at: number): number {
  if (ceiling.peak === null) return Number.POSITIVE_INFINITY;
  const factor = 1 + STEEPNESS * ((at - ceiling.cutAt) / 1_000 - BACK_AFTER_S) ** 3;
  return factor > VANISHED ? Number.POSITIVE_INFINITY : ceiling.peak * factor;
}

export function noteAccepted(ceiling: RateCeiling, at: number): void {
  ceiling.accepted += 1;
  ceiling.lately.push(at);
  while ((ceiling.lately[0] ?? at) < at - 1_000) ceiling.lately.shift();
}

/** One collision with the limit; answers to requests that were sent before the last cut belong to the same one. */
export function noteLimited(ceiling: RateCeiling, at: number, sentAt: number): void {
  if (ceiling.peak !== null && sentAt < ceiling.cutAt) return;
  ceiling.peak = Math.max(LOWEST_PER_SECOND, acceptedRate(ceiling, at));
  ceiling.cutAt = at;
  ceiling.accepted = 0;
}

/** Between two collisions a bucket goes from empty to empty, so what was accepted is what the service refilled. */
function acceptedRate(ceiling: RateCeiling, at: number): number {
  const current = ceilingAt(ceiling, at);
  if (current === Number.POSITIVE_INFINITY) return ceiling.lately.length;
  const measured = (ceiling.accepted / Math.max(at - ceiling.cutAt, 1_000)) * 1_000;
  return Math.min(current, Math.max(measured, current / 2));
}
