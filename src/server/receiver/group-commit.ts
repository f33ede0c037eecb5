// Stores deliveries that arrive at about the same time in one transaction: 200 within a second cost a few disk writes.
import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';
import type { InboxEffect, NewDelivery } from '../../database/inbox.ts';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import { waitAtMost } from '../../model/waiting.ts';

interface GroupCommitOptions {
  /** Stores all deliveries in one transaction, or none; returns one effect per delivery. */
  write: (deliveries: readonly NewDelivery[]) => Promise<readonly InboxEffect[]>;
  clock: Clock;
  /** Milliseconds that a delivery waits at most. */
  timeoutMs: number;
  /** Refuses at once if this many deliveries wait. */
  maxWaiting: number;
}

interface WaitingDelivery extends PromiseWithResolvers<InboxEffect> {
  delivery: NewDelivery;
}

const MAX_GROUP_SIZE = 1_000;
const RETRY_MS = 25;
/**
 * After a commit the next one waits as long as that took, but at most this: SQLite blocks the process while the disk
 * writes, so fewer and larger commits leave it at least half of the time for its other work.
 */
const MAX_REST_MS = 20;

/** Error codes of conditions that pass by themselves, or that the operator ends while the receiver runs. */
const PASSING_CODES: ReadonlySet<string> = new Set([
  'warehouse_busy',
  'warehouse_full',
  'warehouse_unreachable',
  'warehouse_refused',
]);

export class GroupCommit {
  readonly #options: GroupCommitOptions;
  /** Deliveries that are not committed, those in flight included. */
  readonly #waiting = new Set<WaitingDelivery>();
  #running: Promise<void> | null = null;
  /** The error of the last attempt; null if it succeeded. */
  #error: unknown = null;

  constructor(options: GroupCommitOptions) {
    this.#options = options;
  }

  /**
   * Resolves once the delivery is committed. Returns `overloaded` at once if too many wait. After the timeout throws the
   * error of the last attempt, or returns `overloaded` if the database has not responded: such a delivery may be stored
   * all the same.
   */
  async add(delivery: NewDelivery): Promise<InboxEffect | 'overloaded'> {
    const { clock, timeoutMs, maxWaiting } = this.#options;
    if (this.#waiting.size >= maxWaiting) return 'overloaded';
    const one: WaitingDelivery = { delivery, ...Promise.withResolvers<InboxEffect>() };
    this.#waiting.add(one);
    this.#running ??= this.#run();
    const committed = await waitAtMost(clock, timeoutMs, one.promise);
    if (committed !== null) return committed.value;
    this.#waiting.delete(one);
    if (this.#error === null) return 'overloaded';
    throw this.#error;
  }

  /** Resolves when no delivery waits. */
  async idle(): Promise<void> {
    await this.#running;
  }

  async #run(): Promise<void> {
    // All deliveries of this turn of the event loop share the first transaction.
    await nextTurn();
    while (this.#waiting.size > 0) {
      const began = performance.now();
      await this.#attempt(this.#waiting.values().take(MAX_GROUP_SIZE).toArray());
      const tookMs = performance.now() - began;
      await (tookMs < 1 ? nextTurn() : delay(Math.min(tookMs, MAX_REST_MS)));
    }
    this.#running = null;
  }

  async #attempt(group: readonly WaitingDelivery[]): Promise<void> {
    const { write, clock } = this.#options;
    try {
      const effects = await write(group.map(({ delivery }) => delivery));
      this.#error = null;
      for (const [at, one] of group.entries()) {
        one.resolve(effects[at] ?? 'new');
        this.#waiting.delete(one);
      }
    } catch (error) {
      if (error instanceof SyncError && PASSING_CODES.has(error.code)) {
        this.#error = error;
        await clock.sleep(RETRY_MS);
      } else if (group.length > 1) {
        // A delivery that cannot be written must not fail the others.
        for (const one of group) await this.#attempt([one]);
      } else {
        for (const one of group) if (this.#waiting.delete(one)) one.reject(error);
      }
    }
  }
}
