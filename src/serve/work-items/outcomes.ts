import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import { sleepOrAbort } from '../../model/waiting.ts';
import type { ExecuteSql } from '../../warehouse/database.ts';
import { BOSS_SCHEMA } from './work-items.ts';

/** One statement asks for all that are waited for. */
const POLL_MS = 1_000;
const ASK = `SELECT id::text AS id, state::text AS state, output::text AS output
  FROM ${BOSS_SCHEMA}.job WHERE id = ANY($1::uuid[])`;

interface JobRow extends Record<string, unknown> {
  id: string;
  state: string;
  output: string | null;
}

interface Waiter {
  id: string;
  resolve: (outcome: unknown) => void;
  reject: (error: unknown) => void;
}

/** Waits for items of all processes to be done. */
export class Outcomes {
  readonly #execute: ExecuteSql;
  readonly #clock: Clock;
  readonly #closing: AbortSignal;
  readonly #waiters = new Set<Waiter>();
  #isAsking = false;

  constructor(execute: ExecuteSql, clock: Clock, closing: AbortSignal) {
    this.#execute = execute;
    this.#clock = clock;
    this.#closing = closing;
    closing.addEventListener('abort', () => this.#end([...this.#waiters], ({ reject }) => reject(closing.reason)));
  }

  /** The result of an item; null if it is no longer known. Rejects with the signal's reason. */
  async of(id: string, signal: AbortSignal): Promise<unknown> {
    signal.throwIfAborted();
    this.#closing.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const waiter = { id, resolve, reject };
    const giveUp = (): void => this.#end([waiter], () => reject(signal.reason));
    signal.addEventListener('abort', giveUp);
    this.#waiters.add(waiter);
    if (!this.#isAsking) void this.#ask();
    return promise.finally(() => signal.removeEventListener('abort', giveUp));
  }

  /** Called for an item that this process has done itself, so that nobody needs to ask for its result. */
  tell(id: string, result: unknown): void {
    this.#end(this.#waitersFor(id), ({ resolve }) => resolve(result));
  }

  async #ask(): Promise<void> {
    this.#isAsking = true;
    while (this.#waiters.size > 0) {
      await sleepOrAbort(this.#clock, POLL_MS, this.#closing);
      // While the server is away, they go on waiting.
      await this.#askOnce().catch(() => undefined);
    }
    this.#isAsking = false;
  }

  async #askOnce(): Promise<void> {
    const ids = [...new Set(Array.from(this.#waiters, ({ id }) => id))];
    if (ids.length === 0) return;
    const { rows } = await this.#execute<JobRow>(ASK, [ids]);
    const found = new Map(rows.map((row) => [row.id, row]));
    for (const id of ids) this.#read(id, found.get(id));
  }

  #read(id: string, row: JobRow | undefined): void {
    if (row === undefined) this.tell(id, null);
    else if (row.state === 'completed') this.tell(id, row.output === null ? null : JSON.parse(row.output));
    else if (row.state === 'failed' || row.state === 'cancelled') {
      this.#end(this.#waitersFor(id), ({ reject }) => reject(givenUp(row.state)));
    }
  }

  #waitersFor(id: string): Waiter[] {
    return [...this.#waiters].filter((waiter) => waiter.id === id);
  }

  #end(waiters: readonly Waiter[], how: (waiter: Waiter) => void): void {
    for (const waiter of waiters) {
      if (this.#waiters.delete(waiter)) how(waiter);
    }
  }
}

function givenUp(state: string): SyncError {
  return new SyncError('work_lost', `the work was ${state} in the queue`, {
    recovery: 'retry',
    hint: 'somebody has changed it in the schema content_sync_boss; the schedule asks for it again',
  });
}
