/**
 * A rate limit that the service does not state, found by running into it. The first collision only gives a guess, from
 * which the rate doubles until the next one. From then on: after a collision the rate drops below what was accepted
 * since the last one, comes back to it, dwells there, and only then tries for more, as TCP CUBIC does (RFC 9438).
 * Who may use only a share runs at the full rate just long enough to measure it. Times are milliseconds of the
 * monotonic clock.
 */
export interface RateCeiling {
  /** Requests per second that the service was seen to accept; null while no limit is known. */
  peak: number | null;
  /** `guess`: doubling from a first collision; `measure`: from one collision to the next; `hold`: the peak is known. */
  phase: 'guess' | 'measure' | 'hold';
  /** Part of the peak that may be used. */
  readonly share: number;
  /** When the rate was last cut, or the pause after that ended: it grows from then on. */
  cutAt: number;
  /** Requests accepted since the last cut. */
  accepted: number;
  /** When the latest requests were accepted, the last second of them. */
  lately: number[];
}

/** How far the rate drops, and seconds until it is back where it was. */
const DROP = 0.07;
const BACK_AFTER_S = 20;
/** Growth beyond the peak: 60 % in ten seconds, and hardly any in the first three. */
const STEEPNESS = 6e-4;
/** From this multiple on the limit has vanished. */
const VANISHED = 8;
/** A guess doubles in this many seconds; growing like that overshoots, so that at the collision a part is taken back. */
const DOUBLES_IN_S = 1.2;
const OVERSHOOT = 0.9;
/** Growth per second while measuring. */
const MEASURING = 0.03;
/** The smaller the share, the more a look for more costs, and the rarer it is: longest dwelling, in seconds. */
const DWELLING_S = 480;
/** An average over less than this says little. */
const TELLING_S = 5;
const LOWEST_PER_SECOND = 0.2;

export function newCeiling(peak: number | null, share: number, at: number): RateCeiling {
  return { peak, phase: 'hold', share, cutAt: at, accepted: 0, lately: [] };
}

/** Requests per second to stay under, the share taken off; infinite while no limit is known. */
export function ceilingAt(ceiling: RateCeiling, at: number): number {
  if (ceiling.peak === null) return Number.POSITIVE_INFINITY;
  const seconds = Math.max(0, at - ceiling.cutAt) / 1_000;
  return ceiling.peak * GROWTH[ceiling.phase](seconds, ceiling.share);
}

/** The factor of the peak, so many seconds after the last cut. */
const GROWTH: Readonly<Record<RateCeiling['phase'], (seconds: number, share: number) => number>> = {
  guess: (seconds) => 2 ** (seconds / DOUBLES_IN_S),
  measure: (seconds) => 1 - DROP + MEASURING * seconds,
  hold: (seconds, share) => {
    const past = seconds - BACK_AFTER_S - DWELLING_S * (1 - share) ** 2;
    const regained = share < 1 ? 1 : 1 - DROP * (-past / BACK_AFTER_S) ** 3;
    const factor = past < 0 ? regained : 1 + STEEPNESS * past ** 3;
    return factor > VANISHED ? Number.POSITIVE_INFINITY : share * factor;
  },
};

export function noteAccepted(ceiling: RateCeiling, at: number): void {
  ceiling.accepted += 1;
  ceiling.lately.push(at);
  while ((ceiling.lately[0] ?? at) < at - 1_000) ceiling.lately.shift();
}

/** `refusedBefore`: when the collision before this one was. */
interface Refusal {
  at: number;
  sentAt: number;
  refusedBefore: number;
}

/**
 * One collision with the limit; answers to requests that were sent before the last cut belong to the same one. If
 * nothing at all was accepted since then, it is not the rate that is wrong.
 */
export function noteLimited(ceiling: RateCeiling, refusal: Refusal): void {
  const { at, sentAt } = refusal;
  if (ceiling.peak !== null && sentAt < ceiling.cutAt) return;
  const known = ceilingAt(ceiling, at) !== Number.POSITIVE_INFINITY;
  if (!known) Object.assign(ceiling, { peak: Math.max(1, ceiling.lately.length), phase: 'guess' });
  else if (ceiling.accepted > 0) collide(ceiling, refusal);
  ceiling.cutAt = at;
  ceiling.accepted = 0;
}

/** The meaning of a collision depends on the phase before it. */
function collide(ceiling: RateCeiling, { at, refusedBefore }: Refusal): void {
  const seconds = Math.max(1, (at - refusedBefore) / 1_000);
  const measured = ceiling.accepted / seconds;
  const collision = rateAtCollision(ceiling, at, measured);
  const telling = seconds >= TELLING_S;
  const whole = ceiling.share === 1;
  // Between two collisions a bucket goes from empty to empty: what was accepted is what came back. A limiter without a
  // bucket lies at the rate of the collision itself. The truth is between the two, and nearer each time.
  const between = Math.min(telling ? measured * 1.8 : collision, (measured + collision) / 2);
  const peaks = {
    guess: collision * OVERSHOOT,
    measure: telling ? measured : between,
    hold: whole ? between : collision,
  };
  ceiling.peak = Math.max(LOWEST_PER_SECOND, Math.min(collision, peaks[ceiling.phase]));
  ceiling.phase = whole || (ceiling.phase === 'measure' && telling) ? 'hold' : 'measure';
}

/** The rate that was really sent, if something else than the ceiling held it back. */
function rateAtCollision(ceiling: RateCeiling, at: number, measured: number): number {
  const allowed = ceilingAt(ceiling, at);
  const sent = Math.max(ceiling.lately.length * 1.1, measured);
  return Math.min(allowed, ceiling.phase === 'guess' ? sent : Math.max(sent, allowed / 2));
}
