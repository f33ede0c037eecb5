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
  /** Items of one transaction. */
  most?: number;
}

interface Terms {
  /** How long to try at most. */
  patienceMs: number;
  /** Refuse at once if so many wait already. */
  bound?: number;
}

interface Waiting<T, R> {
  item: T;
  deadline: number;
  resolve: (effect: R) => void;
  reject: (error: unknown) => void;
}

const MOST = 1_000;
/** Between two attempts; long enough for the process to do its other work. */
const PAUSES_MS = [10, 10, 20, 40] as const;
const LONGEST_PAUSE_MS = 50;
/**
 * After a commit the next one waits as long as that took, but at most this: SQLite blocks the process while the disk
 * writes, so fewer and larger commits leave it at least half of the time for its other work.
 */
const MAX_REST_MS = 20;
/** How often the waiting are looked at while the database has not answered. */
const LOOK_MS = 100;

/**
 * Writes items that arrive at about the same time in one transaction: the disk is waited for once, not for each. At most
 * one is under way; items that arrive meanwhile are the next one.
 */
export class GroupCommit<T, R> {
  readonly #options: GroupCommitOptions<T, R>;
  #queue: Waiting<T, R>[] = [];
  #underWay: Waiting<T, R>[] = [];
  #running: Promise<void> | null = null;

  constructor(options: GroupCommitOptions<T, R>) {
    this.#options = options;
  }

  /** Items that are not committed yet. */
  get waiting(): number {
    return this.#underWay.length + this.#queue.length;
  }

  /**
   * Resolves once the item is committed. Rejects with `inbox_overloaded` at once if too many wait, and when the patience
   * is over with the error of the last attempt, or `inbox_slow` if that has brought none yet; such an item may be stored
   * all the same if an answer of the database was lost.
   */
  add(item: T, { patienceMs, bound = Infinity }: Terms): Promise<R> {
    if (this.waiting >= bound) return Promise.reject(overloaded(this.waiting));
    const { promise, resolve, reject } = Promise.withResolvers<R>();
    this.#queue.push({ item, deadline: this.#options.clock.monotonic() + patienceMs, resolve, reject });
    this.#running ??= this.#run();
    return promise;
  }

  /** Resolves when nothing waits. */
  async idle(): Promise<void> {
    await this.#running;
  }

  async #run(): Promise<void> {
    // Everything that this turn of the event loop brings goes along.
    await turn();
    for (let failures = 0; this.#queue.length > 0;) {
      const began = performance.now();
      this.#underWay = this.#queue.splice(0, this.#options.most ?? MOST);
      const error = await this.#attempt(this.#underWay);
      failures = error === null ? 0 : failures + 1;
      if (error !== null) await this.#afterFailure(error, failures);
      this.#underWay = [];
      const tookMs = performance.now() - began;
      await (tookMs < 1 ? turn() : delay(Math.min(tookMs, MAX_REST_MS)));
    }
    this.#running = null;
  }

  async #attempt(group: readonly Waiting<T, R>[]): Promise<unknown> {
    try {
      const writing = this.#options.write(group.map(({ item }) => item));
      let written = await waitAtMost(this.#options.clock, LOOK_MS, writing);
      // A database that does not answer keeps nobody waiting: each item is rejected when its patience is over.
      for (; written === null; written = await waitAtMost(this.#options.clock, LOOK_MS, writing))
        this.#giveUpOn(slow());
      for (const [at, { resolve }] of group.entries()) resolve(effectAt(written.value, at));
      return null;
    } catch (error) {
      return error ?? new Error('a write failed without an error');
    }
  }

  async #afterFailure(error: unknown, failures: number): Promise<void> {
    if (!this.#options.mayPass(error)) return this.#eachAlone(this.#underWay);
    this.#queue.unshift(...this.#underWay.splice(0));
    this.#giveUpOn(error);
    await this.#options.clock.sleep(PAUSES_MS[failures - 1] ?? LONGEST_PAUSE_MS);
  }

  /** An item that cannot be written does not take the others along. */
  async #eachAlone(group: readonly Waiting<T, R>[]): Promise<void> {
    for (const one of group) {
      const error = await this.#attempt([one]);
      if (error !== null) one.reject(error);
    }
  }

  /** Those that are under way go on: only the database knows what becomes of them. */
  #giveUpOn(error: unknown): void {
    const now = this.#options.clock.monotonic();
    for (const { deadline, reject } of [...this.#underWay, ...this.#queue]) if (deadline <= now) reject(error);
    this.#queue = this.#queue.filter(({ deadline }) => deadline > now);
  }
}

function effectAt<R>(effects: readonly R[], at: number): R {
  const effect = effects[at];
  if (effect === undefined) throw new Error('a write told less than one effect per item');
  return effect;
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
