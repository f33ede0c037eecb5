import { setImmediate as turn, setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import { waitAtMost } from '../../model/waiting.ts';

export interface GroupCommitOptions<T, R> {
  /** Stores all items in one transaction, or none; one effect per item. */
  write: (items: readonly T[]) => Promise<readonly R[]>;
  /** True if the same write may work in a moment: the lock is held, the disk is full. */
  mayPass: (error: unknown) => boolean;
  clock: Clock;
}

interface Terms {
  /** How long to try at most. */
  patienceMs: number;
  /** Refuse at once if so many wait already. */
  bound?: number;
}

interface Waiting<T, R> extends PromiseWithResolvers<R> {
  item: T;
}

/** Items of one transaction. */
const MOST = 1_000;
/** Between two attempts; long enough for the process to do its other work. */
const PAUSE_MS = 25;
/**
 * After a commit the next one waits as long as that took, but at most this: SQLite blocks the process while the disk
 * writes, so fewer and larger commits leave it at least half of the time for its other work.
 */
const MAX_REST_MS = 20;

/**
 * Writes items that arrive at about the same time in one transaction: the disk is waited for once, not for each. At most
 * one is under way; items that arrive meanwhile are the next one.
 */
export class GroupCommit<T, R> {
  readonly #options: GroupCommitOptions<T, R>;
  /** Items that are not committed yet, also those under way. */
  readonly #waiting = new Set<Waiting<T, R>>();
  #running: Promise<void> | null = null;
  /** Of the last attempt; null if it succeeded. */
  #error: unknown = null;

  constructor(options: GroupCommitOptions<T, R>) {
    this.#options = options;
  }

  /**
   * Resolves once the item is committed. Rejects with `inbox_overloaded` at once if too many wait, and when the patience
   * is over with the error of the last attempt, or `inbox_slow` if that has brought none yet; such an item may be stored
   * all the same if an answer of the database was lost.
   */
  async add(item: T, { patienceMs, bound = Infinity }: Terms): Promise<R> {
    if (this.#waiting.size >= bound) throw overloaded(this.#waiting.size);
    const one: Waiting<T, R> = { item, ...Promise.withResolvers<R>() };
    this.#waiting.add(one);
    this.#running ??= this.#run();
    const committed = await waitAtMost(this.#options.clock, patienceMs, one.promise);
    if (committed !== null) return committed.value;
    // If it is under way, only the database knows what becomes of it.
    this.#waiting.delete(one);
    throw this.#error ?? slow();
  }

  /** Resolves when nothing waits. */
  async idle(): Promise<void> {
    await this.#running;
  }

  async #run(): Promise<void> {
    // Everything that this turn of the event loop brings goes along.
    await turn();
    while (this.#waiting.size > 0) {
      const began = performance.now();
      await this.#attempt(this.#waiting.values().take(MOST).toArray());
      const tookMs = performance.now() - began;
      await (tookMs < 1 ? turn() : delay(Math.min(tookMs, MAX_REST_MS)));
    }
    this.#running = null;
  }

  async #attempt(group: readonly Waiting<T, R>[]): Promise<void> {
    const { write, mayPass, clock } = this.#options;
    try {
      const effects = await write(group.map(({ item }) => item));
      this.#error = null;
      for (const [at, one] of group.entries()) {
        const effect = effects[at];
        if (effect === undefined) one.reject(new Error('a write told less than one effect per item'));
        else one.resolve(effect);
        this.#waiting.delete(one);
      }
    } catch (error) {
      if (!mayPass(error)) return this.#eachAlone(group, error);
      this.#error = error;
      await clock.sleep(PAUSE_MS);
    }
  }

  /** An item that cannot be written does not take the others along. */
  async #eachAlone(group: readonly Waiting<T, R>[], error: unknown): Promise<void> {
    const [first] = group;
    if (group.length > 1) for (const one of group) await this.#attempt([one]);
    else if (first !== undefined && this.#waiting.delete(first)) first.reject(error);
  }
}

function slow(): SyncError {
  return new SyncError('inbox_slow', 'the database has not answered in time', {
    recovery: 'retry',
    hint: 'the sender repeats it; if this lasts, look at the database server',
  });
}

function overloaded(waiting: number): SyncError {
  return new SyncError('inbox_overloaded', `${waiting} deliveries wait for the disk already`, {
    recovery: 'retry',
    hint: 'the sender repeats it; if this lasts, look at the disk of the warehouse',
  });
}
