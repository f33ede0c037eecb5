import { setImmediate as turn } from 'node:timers/promises';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';

export interface GroupCommitOptions<T, R> {
  /** Stores all items in one transaction, or none; one effect per item. */
  write: (items: readonly T[]) => Promise<readonly R[]>;
  /** True where the same write may work in a moment: the lock is held, the disk is full. */
  mayPass: (error: unknown) => boolean;
  clock: Clock;
  /** Items of one transaction. */
  most?: number;
}

interface Terms {
  /** How long to try at most. */
  patienceMs: number;
  /** Refuse at once where so many wait already. */
  bound?: number;
}

/** Writes what arrives at about the same time as one transaction: the disk is waited for once, not once for each. */
export interface GroupCommit<T, R> {
  /**
   * Resolves once the item is committed. Rejects with `inbox_overloaded` at once where too many wait, and with the
   * error of the last attempt when the patience is over; such an item is not stored.
   */
  add(item: T, terms: Terms): Promise<R>;
  /** Items that are not committed yet. */
  readonly waiting: number;
  /** Resolves when nothing waits. */
  idle(): Promise<void>;
}

interface Waiting<T, R> {
  item: T;
  deadline: number;
  resolve: (effect: R) => void;
  reject: (error: unknown) => void;
}

const MOST = 1_000;
/** Between two attempts; long enough for the thread to do its other work. */
const PAUSE_MS = 10;

export function createGroupCommit<T, R>(options: GroupCommitOptions<T, R>): GroupCommit<T, R> {
  const { write, mayPass, clock, most = MOST } = options;
  let queue: Waiting<T, R>[] = [];
  let running: Promise<void> | null = null;

  /** At most one transaction is under way. What arrives meanwhile is the next one. */
  async function run(): Promise<void> {
    // Everything that this turn of the event loop brings goes along.
    await turn();
    while (queue.length > 0) {
      const group = queue.slice(0, most);
      const error = await attempt(group);
      if (error === null) queue = queue.slice(group.length);
      else if (!mayPass(error)) await eachAlone(queue.splice(0, group.length));
      else {
        giveUpOn(error);
        await clock.sleep(PAUSE_MS);
      }
      await turn();
    }
    running = null;
  }

  async function attempt(group: readonly Waiting<T, R>[]): Promise<unknown> {
    try {
      const effects = await write(group.map(({ item }) => item));
      for (const [at, { resolve }] of group.entries()) resolve(effectAt(effects, at));
      return null;
    } catch (error) {
      return error ?? new Error('a write failed without an error');
    }
  }

  /** An item that cannot be written does not take the others along. */
  async function eachAlone(group: readonly Waiting<T, R>[]): Promise<void> {
    for (const one of group) {
      const error = await attempt([one]);
      if (error !== null) one.reject(error);
    }
  }

  function giveUpOn(error: unknown): void {
    const now = clock.monotonic();
    for (const { reject } of queue.filter(({ deadline }) => deadline <= now)) reject(error);
    queue = queue.filter(({ deadline }) => deadline > now);
  }

  return {
    add: (item, { patienceMs, bound = Infinity }) => {
      if (queue.length >= bound) return Promise.reject(overloaded(queue.length));
      const { promise, resolve, reject } = Promise.withResolvers<R>();
      queue.push({ item, deadline: clock.monotonic() + patienceMs, resolve, reject });
      running ??= run();
      return promise;
    },
    get waiting() {
      return queue.length;
    },
    idle: async () => {
      await running;
    },
  };
}

function effectAt<R>(effects: readonly R[], at: number): R {
  const effect = effects[at];
  if (effect === undefined) throw new Error('a write told less than one effect per item');
  return effect;
}

function overloaded(waiting: number): SyncError {
  return new SyncError('inbox_overloaded', `${waiting} deliveries wait for the disk already`, {
    recovery: 'retry',
    hint: 'the sender repeats it; if this lasts, look at the disk of the warehouse',
  });
}
