import { LANES, type Lane } from '../../model/vocabulary.ts';
import type { Arrival } from './budget-keeper.ts';
import { OLDEST_EVERY, yields } from '../lane-queue.ts';

/** What a process says of the requests that wait in it, so that the others let them go first whose turn it is. */
export interface Claim {
  /** The first lane in which one waits, and since when. */
  lane: Lane;
  since: number;
  /** Since when the one waits that has waited longest, in whatever lane. */
  oldest: number;
  /** A process that says nothing more is not waited for. */
  until: number;
}

/** By process. */
export type Claims = Map<string, Claim>;

/** How long a claim holds that is not renewed. */
export const CLAIM_MS = 1_000;

/** What is claimed for those who wait; null where nobody does. */
export function claimFor(waiting: readonly Arrival[], now: number): Claim | null {
  const [oldest] = waiting;
  const first = LANES.flatMap((lane) => waiting.find((arrival) => arrival.lane === lane) ?? [])[0];
  if (oldest === undefined || first === undefined) return null;
  return { lane: first.lane, since: first.at, oldest: oldest.at, until: now + CLAIM_MS };
}

/** The one of those who wait that goes next, in this turn. */
export function nextOf(waiting: readonly Arrival[], turn: number): Arrival | undefined {
  const first = LANES.flatMap((lane) => waiting.find((arrival) => arrival.lane === lane) ?? [])[0];
  return isForOldest(turn) ? waiting[0] : first;
}

/** True where somebody, anywhere, waits in a lane that goes before the yielding ones. */
export function isLiveClaimed(claims: Claims): boolean {
  return [...claims.values()].some(({ lane }) => !yields(lane));
}

/**
 * The processes whose requests go before those of `mine` in this turn. One that has just had a turn, or got a slot back,
 * may be `favoured`: then those of its own lane do not go before it.
 */
export function goFirst(claims: Claims, mine: Claim, turn: number, favoured: boolean): string[] {
  const isFirst = isForOldest(turn)
    ? (other: Claim) => other.oldest < mine.oldest
    : (other: Claim) => compareLanes(other, mine) < 0 || (!favoured && compare(other, mine) < 0);
  return [...claims].filter(([, other]) => other !== mine && isFirst(other)).map(([owner]) => owner);
}

function isForOldest(turn: number): boolean {
  return turn % OLDEST_EVERY === 0;
}

function compare(a: Claim, b: Claim): number {
  return compareLanes(a, b) || a.since - b.since;
}

function compareLanes(a: Claim, b: Claim): number {
  return LANES.indexOf(a.lane) - LANES.indexOf(b.lane);
}
