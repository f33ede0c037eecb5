import type { Queue, QueueAddOptions, RunFunction } from 'p-queue';
import { LANES, type Lane } from '../model/vocabulary.ts';

export interface LaneOptions extends QueueAddOptions {
  lane?: Lane;
}

interface Waiting {
  id: string | undefined;
  lane: Lane;
  /** Order of arrival over all lanes. */
  number: number;
  run: RunFunction;
}

/** Lanes that never take all slots. */
const YIELDING: ReadonlySet<Lane> = new Set(['backfill', 'bulk']);
/** At every fifth grant the request that has waited longest goes first, whatever its lane, so that none starves. */
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

/** The waiting room that p-queue takes its next task from: earlier lanes first, and every fifth time the oldest. */
export class LaneQueue implements Queue<RunFunction, LaneOptions> {
  #lanes = new Map<Lane, Waiting[]>(LANES.map((lane) => [lane, []]));
  #arrivals = 0;
  #taken = 0;

  get size(): number {
    return this.#heads().reduce((sum, head) => sum + (this.#lanes.get(head.lane)?.length ?? 0), 0);
  }

  enqueue(run: RunFunction, options: Partial<LaneOptions> = {}): void {
    const { id, lane = 'backfill' } = options;
    this.#arrivals += 1;
    this.#lanes.get(lane)?.push({ id, lane, number: this.#arrivals, run });
  }

  dequeue(): RunFunction | undefined {
    const heads = this.#heads();
    this.#taken += 1;
    const byAge = heads.toSorted((a, b) => a.number - b.number);
    const next = this.#taken % OLDEST_EVERY === 0 ? byAge[0] : heads[0];
    return next && this.#lanes.get(next.lane)?.shift()?.run;
  }

  filter(options: Readonly<Partial<LaneOptions>>): RunFunction[] {
    return (options.lane ? (this.#lanes.get(options.lane) ?? []) : [...this.#lanes.values()].flat()).map(
      (waiting) => waiting.run,
    );
  }

  remove(id: string): void {
    for (const lane of this.#lanes.values()) {
      const at = lane.findIndex((waiting) => waiting.id === id);
      if (at !== -1) lane.splice(at, 1);
    }
  }

  /** Lanes are fixed on arrival. */
  setPriority(): void {}

  /** The first of each lane, in the order of the lanes. */
  #heads(): Waiting[] {
    return LANES.flatMap((lane) => this.#lanes.get(lane)?.[0] ?? []);
  }
}
