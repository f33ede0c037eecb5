import { LANES, type Lane } from '../model/vocabulary.ts';

/** Lanes that never take all slots. */
const YIELDING: ReadonlySet<Lane> = new Set(['backfill', 'bulk']);
/** Every fifth request to start is the one that has waited longest, so that no lane starves. */
export const OLDEST_EVERY = 5;
/** How long after a live request slots are kept free for the next one. */
export const LIVE_MS = 60_000;
/** Part of the slots that is kept free of yielding lanes. */
const KEPT_FREE = 0.2;

export function yields(lane: Lane): boolean {
  return YIELDING.has(lane);
}

/** Whether anybody who waits may have a slot; `yielding` is how many of the `slots` yielding lanes have by now. */
export function mayStart(queue: Waiters, yielding: number, slots: number): boolean {
  return hasLive(queue) || (queue.size > 0 && yielding < slots);
}

/** Slots that yielding lanes may have while live lanes are in use. */
export function yieldingSlots(slots: number): number {
  return slots - Math.floor(slots * KEPT_FREE);
}

function hasLive(queue: Waiters): boolean {
  return LANES.some((lane) => !yields(lane) && queue.sizeBy({ lane }) > 0);
}

/** How many wait, in all lanes or in one. */
export interface Waiters {
  readonly size: number;
  sizeBy(options: { lane: Lane }): number;
}
