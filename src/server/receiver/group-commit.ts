import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import { waitAtMost } from '../../model/waiting.ts';

export interface GroupCommitOptions<T, R> {
  /** Stores all items in one transaction, or none; returns one effect per item. */
  write: (items: readonly T[]) => Promise<readonly R[]>;
  /** Returns true if the same write may succeed soon: the lock is held, the disk is full. */
  mayPass: (error: unknown) => boolean;
  /** Between two attempts; 25 ms if absent. */
  retryMs?: number;
  clock: Clock;
}

interface CommitLimits {
  /** Waits without end if absent. */
  timeoutMs?: number;
  /** Refuses at once if this many items wait. */
  maxWaiting?: number;
}

interface WaitingItem<T, R> extends PromiseWithResolvers<R> {
  item: T;
}

const MAX_GROUP_SIZE = 1_000;
const RETRY_MS = 25;
/**
 * After a commit the next one waits as long as that took, but at most this: SQLite blocks the process while the disk
 * writes, so fewer and larger commits leave it at least half of the time for its other work.
 */
const MAX_REST_MS = 20;

/** Writes items that arrive at about the same time in one transaction, one transaction at a time. */
export class GroupCommit<T, R> {
  readonly #options: GroupCommitOptions<T, R>;
  /** Items that are not committed, those in flight included. */
  readonly #waiting = new Set<WaitingItem<T, R>>();
  #running: Promise<void> | null = null;
  /** The error of the last attempt; null if it succeeded. */
  #error: unknown = null;

  constructor(options: GroupCommitOptions<T, R>) {
    this.#options = options;
  }

  /**
   * Resolves once the item is committed. Rejects with `inbox_overloaded` at once if too many wait, and after the timeout
   * with the error of the last attempt, or with `inbox_slow` if the database has not responded: such an item may be
   * stored all the same.
   */
  async add(item: T, { timeoutMs, maxWaiting = Infinity }: CommitLimits = {}): Promise<R> {
    if (this.#waiting.size >= maxWaiting) throw overloaded(this.#waiting.size);
    const one: WaitingItem<T, R> = { item, ...Promise.withResolvers<R>() };
    this.#waiting.add(one);
    this.#running ??= this.#run();
    if (timeoutMs === undefined) return one.promise;
    const committed = await waitAtMost(this.#options.clock, timeoutMs, one.promise);
    if (committed !== null) return committed.value;
    this.#waiting.delete(one);
    throw this.#error ?? slow();
  }

  /** Resolves when no item waits. */
  async idle(): Promise<void> {
    await this.#running;
  }

  async #run(): Promise<void> {
    // All items of this turn of the event loop share the first transaction.
    await nextTurn();
    while (this.#waiting.size > 0) {
      const began = performance.now();
      await this.#attempt(this.#waiting.values().take(MAX_GROUP_SIZE).toArray());
      const tookMs = performance.now() - began;
      await (tookMs < 1 ? nextTurn() : delay(Math.min(tookMs, MAX_REST_MS)));
    }
    this.#running = null;
  }

  async #attempt(group: readonly WaitingItem<T, R>[]): Promise<void> {
    const { write, mayPass, clock, retryMs = RETRY_MS } = this.#options;
    try {
      const effects = await write(group.map(({ item }) => item));
      this.#error = null;
      for (const [at, one] of group.entries()) {
        const effect = effects[at];
        if (effect === undefined) one.reject(new Error('a write returned less than one effect per item'));
        else one.resolve(effect);
        this.#waiting.delete(one);
      }
    } catch (error) {
      if (mayPass(error)) {
        this.#error = error;
        await clock.sleep(retryMs);
      } else if (group.length > 1) {
        // An item that cannot be written must not fail the others.
        for (const one of group) await this.#attempt([one]);
      } else {
        for (const one of group) if (this.#waiting.delete(one)) one.reject(error);
      }
    }
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
