// The work queue that processes on one Postgres database share, in tables of pg-boss. Without it, two processes would sync
// the same resource, or one that has nothing to do would not help another. The process that leads a source puts an item
// into the queue (`put`), any process takes it and does the work (`work`), and the first one awaits the result (`outcome`).
// If a process dies, its heartbeat ends, and another one takes the item.
import { randomUUID } from 'node:crypto';
import type { Db, PgBoss } from 'pg-boss';
import type { SharedStatements } from '../../database/database.ts';
import { sharedDatabase } from '../../database/databases.ts';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import type { JsonValue } from '../../model/json.ts';
import { repeatUntilAborted, unlessAborted, WakeableSleep } from '../../model/waiting.ts';
import {
  BOSS_SCHEMA,
  insertItem,
  type ItemEnd,
  type ItemOf,
  keyOf,
  QUEUE_POLICIES,
  type QueuedItem,
  type WorkHandler,
  type WorkItem,
  type WorkKind,
} from './work-items.ts';

interface WorkQueueOptions {
  /** The address of any source of the database. */
  address: string;
  clock: Clock;
  /** Called with errors; no item is lost by them. */
  failed: (error: unknown) => void;
}

/** The interval of searches for items whose process is dead. */
const SUPERVISE_SECONDS = 3;
const MAINTAIN_SECONDS = 300;
const HOUR_SECONDS = 3_600;
const DAY_SECONDS = 86_400;
/** After this time an item that no process has taken is deleted. */
const MONTH_SECONDS = 30 * DAY_SECONDS;
/** An item may be returned any number of times: only a user cancels work. */
const NO_LIMIT = 2_000_000_000;
/** The pause between two attempts to open a queue whose server is unreachable. */
const REOPEN_MS = 3_000;
/** Long enough for a restart of the server; pg-boss retries by itself. */
const RECONNECT_TIMEOUT_MS = 10_000;

const FIND_ITEM = `SELECT id::text AS id, state = 'active' AS "isStarted" FROM ${BOSS_SCHEMA}.job
  WHERE name = $1 AND singleton_key = $2 AND state <= 'active'`;
/** Finds recently returned items only: if all workers are busy, an older one waits like every other. */
const FIND_RETURNED = `SELECT singleton_key AS key FROM ${BOSS_SCHEMA}.job
  WHERE name = $1 AND singleton_key = ANY($2) AND state = 'retry' AND start_after > now() - interval '15 s'`;

/** The interval in which one statement reads all awaited results. */
const OUTCOMES_INTERVAL_MS = 1_000;
const READ_OUTCOMES = `SELECT id::text AS id, state::text AS state, output::text AS output
  FROM ${BOSS_SCHEMA}.job WHERE id = ANY($1::uuid[])`;

/** Opens the queue as soon as the server is reachable; the constructor throws nothing. All methods throw `SyncError`. */
export class WorkQueue {
  /** Resolves once items can be queued; rejects if the queue is closed before. */
  readonly opened: Promise<void>;
  readonly #options: WorkQueueOptions;
  readonly #closing = new AbortController();
  readonly #statements: SharedStatements;
  /** Loaded with the first queue: pg-boss is large, and most processes have no queue. */
  readonly #boss: Promise<PgBoss>;
  /** The awaited results, by the id of their item. */
  readonly #awaited = new Map<string, PromiseWithResolvers<unknown>>();
  readonly #workers = new Map<WorkKind, { wake(): void; idle(): Promise<void> }>();

  constructor(options: WorkQueueOptions) {
    this.#options = options;
    const shared = sharedDatabase(options.address);
    if (shared === null) throw new Error('a queue needs a database that several processes share');
    this.#statements = shared.connect(options.clock);
    this.#boss = createBoss(toDb(this.#statements, RECONNECT_TIMEOUT_MS), options);
    this.opened = this.#open();
    // A queue may be closed before it is opened, and no caller may wait for that.
    this.opened.catch(() => undefined);
    const period = { clock: options.clock, everyMs: OUTCOMES_INTERVAL_MS, signal: this.#closing.signal };
    void repeatUntilAborted(period, () => this.#pollOutcomes());
  }

  /** Queues an item; returns the existing one if the same work is queued or in progress. */
  async put(item: WorkItem): Promise<QueuedItem> {
    await this.opened;
    const id = randomUUID();
    const { execute } = this.#statements;
    for (;;) {
      this.#closing.signal.throwIfAborted();
      if (await insertItem(item, execute, id)) return { id, isStarted: false };
      const { rows } = await execute<{ id: string; isStarted: boolean }>(FIND_ITEM, [item.kind, keyOf(item)]);
      const [found] = rows;
      // It may have this id, if it was inserted and the response was lost. It is missing if it has just ended: try again.
      if (found !== undefined) return found;
    }
  }

  /** Resolves with the result of an item once any process has done it; null if the result is no longer stored. */
  async outcome(id: string, signal: AbortSignal): Promise<unknown> {
    const awaited = this.#awaited.get(id) ?? Promise.withResolvers<unknown>();
    // The caller may have stopped waiting when it is rejected.
    awaited.promise.catch(() => undefined);
    this.#awaited.set(id, awaited);
    return unlessAborted(awaited.promise, AbortSignal.any([signal, this.#closing.signal]));
  }

  /** Returns those of the keys whose item was just returned to the queue and is about to be taken again. */
  async returnedKeys(kind: WorkKind, keys: readonly string[]): Promise<string[]> {
    await this.opened;
    const { rows } = await this.#statements.execute<{ key: string }>(FIND_RETURNED, [kind, keys]);
    return rows.map(({ key }) => key);
  }

  /** Resolves once the database has answered; rejects with what it throws. */
  async probe(): Promise<void> {
    await this.opened;
    await this.#statements.run('SELECT 1', [], 0);
  }

  /** Takes items of a kind from now on, at most `atOnce` in parallel, and passes them to the handler. */
  work<Kind extends WorkKind>(kind: Kind, atOnce: number, handler: WorkHandler<Kind, unknown>): void {
    const { clock, failed } = this.#options;
    const [dbWithoutRetries, closing] = [toDb(this.#statements, 0), this.#closing.signal];
    const startWorker = (boss: PgBoss): void => {
      if (closing.aborted) return;
      const worker = new ItemWorker({ kind, atOnce, boss, dbWithoutRetries, handler, clock, closing, failed });
      this.#workers.set(kind, worker);
    };
    this.opened.then(() => this.#boss).then(startWorker, () => undefined);
  }

  /** Lets the worker look for items at once. */
  wake(kind: WorkKind): void {
    this.#workers.get(kind)?.wake();
  }

  /** Returns the items in progress to the queue, and closes. */
  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort(new SyncError('interrupted', 'the process is ending', { recovery: 'stop' }));
    await this.opened.catch(() => undefined);
    await Promise.all(Array.from(this.#workers.values(), (each) => each.idle()));
    await (await this.#boss).stop({ graceful: false });
    await this.#statements.close();
  }

  async #pollOutcomes(): Promise<void> {
    const ids = [...this.#awaited.keys()];
    if (ids.length === 0) return;
    const { execute } = this.#statements;
    const { rows } = await execute<{ id: string; state: string; output: string | null }>(READ_OUTCOMES, [ids]);
    const found = new Map(rows.map((row) => [row.id, row]));
    for (const id of ids) {
      const row = found.get(id);
      if (row !== undefined && !ENDED.has(row.state)) continue;
      const awaited = this.#awaited.get(id);
      this.#awaited.delete(id);
      if (row === undefined || row.state === 'completed') awaited?.resolve(parseOutput(row?.output ?? 'null'));
      else awaited?.reject(cancelledError(row.state));
    }
  }

  async #open(): Promise<void> {
    const { clock, failed } = this.#options;
    const { signal } = this.#closing;
    const boss = await this.#boss;
    for (;;) {
      signal.throwIfAborted();
      try {
        await boss.start();
        for (const kind of ['walk', 'drain'] as const) await createQueue(boss, kind);
        return;
      } catch (error) {
        failed(error);
      }
      await clock.sleep(REOPEN_MS, signal);
    }
  }
}

const ENDED: ReadonlySet<string> = new Set(['completed', 'failed', 'cancelled']);

/** Creates the connection for pg-boss. Statements are retried for `timeoutMs`; 0 for those that must not run twice. */
function toDb(statements: SharedStatements, timeoutMs: number): Db {
  return { executeSql: (text, values) => statements.run(text, values, timeoutMs) };
}

async function createBoss(db: Db, { failed }: WorkQueueOptions): Promise<PgBoss> {
  const { PgBoss } = await import('pg-boss');
  const boss = new PgBoss({
    db,
    schema: BOSS_SCHEMA,
    // pg-boss schedules nothing: the stored state of a resource decides when its sync is due.
    schedule: false,
    superviseIntervalSeconds: SUPERVISE_SECONDS,
    monitorIntervalSeconds: SUPERVISE_SECONDS,
    maintenanceIntervalSeconds: MAINTAIN_SECONDS,
    flowIntervalSeconds: HOUR_SECONDS,
    bamIntervalSeconds: HOUR_SECONDS,
    queueCacheIntervalSeconds: HOUR_SECONDS,
  });
  // Without a listener an error would end the process.
  boss.on('error', failed);
  return boss;
}

async function createQueue(boss: PgBoss, kind: WorkKind): Promise<void> {
  const { heartbeatSeconds, deleteAfterSeconds } = QUEUE_POLICIES[kind];
  const times = { heartbeatSeconds, deleteAfterSeconds, retentionSeconds: MONTH_SECONDS, expireInSeconds: DAY_SECONDS };
  // At most one item of a key is queued or in progress.
  await boss.createQueue(kind, { policy: 'exclusive', ...times, retryLimit: NO_LIMIT, retryDelay: 0 });
}

function parseOutput(text: string): unknown {
  const output: unknown = JSON.parse(text);
  return typeof output === 'object' && output !== null && 'result' in output ? output.result : null;
}

function cancelledError(state: string): SyncError {
  return new SyncError('serve_missing', `the work was ${state} in the queue`, {
    recovery: 'retry',
    hint: 'a user has changed it in the schema content_sync_boss; the schedule repeats it',
  });
}

interface ItemWorkerOptions<Kind extends WorkKind> {
  kind: Kind;
  atOnce: number;
  boss: PgBoss;
  /** For taking items: a retried statement could take a second item, which no process would handle. */
  dbWithoutRetries: Db;
  handler: WorkHandler<Kind, unknown>;
  clock: Clock;
  /** Aborted with the reason for which items are returned to the queue. */
  closing: AbortSignal;
  /** Called with errors of handlers and of the queue; no item is lost by them. */
  failed: (error: unknown) => void;
}

/** An attempt at an item; the retry count distinguishes it from attempts of other processes. */
interface ItemAttempt {
  id: string;
  retryCount: number;
  /** Aborted when another process has taken the item over. */
  lost: AbortController;
}

/** The interval in which a process looks for items unless it is woken. */
const POLL_MS = 1_000;
/** The pause before an item is taken again after its handler has thrown. */
const AFTER_BUG_MS = 15_000;
const HEARTBEATS_PER_TIMEOUT = 3;

/** Takes items of one kind out of the queue and does them, at most `atOnce` in parallel. */
class ItemWorker<Kind extends WorkKind> {
  readonly #options: ItemWorkerOptions<Kind>;
  readonly #attempts = new Map<string, ItemAttempt>();
  readonly #inProgress = new Set<Promise<void>>();
  /** Sources that are not in this process's settings. */
  readonly #unknownSources = new Set<string>();
  readonly #heartbeatTimer: NodeJS.Timeout;
  readonly #loop: Promise<void>;
  readonly #pause: WakeableSleep;

  constructor(options: ItemWorkerOptions<Kind>) {
    this.#options = options;
    this.#pause = new WakeableSleep(options.clock);
    const { heartbeatSeconds } = QUEUE_POLICIES[options.kind];
    this.#heartbeatTimer = setInterval(
      () => void this.#sendHeartbeats(),
      (heartbeatSeconds * 1_000) / HEARTBEATS_PER_TIMEOUT,
    );
    this.#loop = this.#takeItems();
  }

  wake(): void {
    this.#pause.wake();
  }

  /** Resolves once every item in progress is done or returned; `closing` must be aborted before. */
  async idle(): Promise<void> {
    this.wake();
    await this.#loop;
    await Promise.all(this.#inProgress);
    clearInterval(this.#heartbeatTimer);
  }

  async #takeItems(): Promise<void> {
    const { closing, failed, kind, atOnce } = this.#options;
    const { spreadMs } = QUEUE_POLICIES[kind];
    while (!closing.aborted) {
      let pauseMs = POLL_MS;
      try {
        const hasTaken = this.#attempts.size < atOnce && (await this.#take());
        if (hasTaken) pauseMs = Math.min(POLL_MS, spreadMs * this.#attempts.size);
      } catch (error) {
        failed(error);
      }
      await this.#pause.sleep(pauseMs, closing);
    }
  }

  async #take(): Promise<boolean> {
    const { kind, boss, dbWithoutRetries: db } = this.#options;
    const ignoreGroups = [...this.#unknownSources];
    const [job] = await boss.fetch<ItemOf<Kind>>(kind, { db, ignoreGroups, includeMetadata: true });
    if (job === undefined) return false;
    const attempt = { id: job.id, retryCount: job.retryCount, lost: new AbortController() };
    this.#attempts.set(job.id, attempt);
    const work = this.#doItem(attempt, { ...job.data, kind }).finally(() => this.#inProgress.delete(work));
    this.#inProgress.add(work);
    return true;
  }

  async #doItem(attempt: ItemAttempt, item: ItemOf<Kind>): Promise<void> {
    const { closing, failed, handler, atOnce } = this.#options;
    const signal = AbortSignal.any([attempt.lost.signal, closing]);
    let end: ItemEnd<unknown> = { is: 'returned', afterMs: 0 };
    try {
      signal.throwIfAborted();
      end = await handler(item, signal);
    } catch (error) {
      if (!signal.aborted) {
        failed(error);
        end = { is: 'returned', afterMs: AFTER_BUG_MS };
      }
    }
    if (end.is === 'unknown_source') this.#unknownSources.add(item.source);
    // If this fails, another process takes the item, because its heartbeat ends.
    await this.#storeEnd(attempt, end).catch(failed);
    const wasFull = this.#attempts.size >= atOnce;
    this.#attempts.delete(attempt.id);
    if (wasFull) this.wake();
  }

  /** Changes nothing if another process has taken the item over: then its retry count is another one. */
  async #storeEnd({ id, retryCount }: ItemAttempt, end: ItemEnd<unknown>): Promise<void> {
    const { kind, boss } = this.#options;
    if (end.is === 'done')
      return void (await boss.complete(kind, [{ id, retryCount }], { result: toJsonb(end.result) }));
    // pg-boss has no call that returns an item to the queue, but it offers a failed one again.
    const returned = changedIds(await boss.fail(kind, [{ id, retryCount }]));
    const startAfter = end.is === 'returned' ? Math.round(end.afterMs / 1_000) : 0;
    if (returned.has(id) && startAfter > 0) await boss.update(kind, undefined, { id, startAfter });
  }

  /** Sends one statement for all items in progress, and aborts those that another process has taken over. */
  async #sendHeartbeats(): Promise<void> {
    const { kind, boss } = this.#options;
    const attempts = [...this.#attempts.values()];
    if (attempts.length === 0) return;
    const takenOver = new SyncError('interrupted', 'another process has taken this work over', { recovery: 'stop' });
    try {
      const touched = attempts.map(({ id, retryCount }) => ({ id, retryCount }));
      const owned = changedIds(await boss.touch(kind, touched));
      for (const { id, lost } of attempts) {
        if (!owned.has(id) && this.#attempts.has(id)) lost.abort(takenOver);
      }
    } catch {
      // While the server is unreachable, no process can take an item over. The next heartbeat finds out.
    }
  }
}

/** Replaces what jsonb cannot store: NUL and lone surrogates. */
function toJsonb(value: unknown): JsonValue {
  const text = JSON.stringify(value ?? null, (_, part: unknown) =>
    typeof part === 'string' ? part.toWellFormed().replaceAll('\0', '\u{FFFD}') : part,
  );
  const read: JsonValue = JSON.parse(text);
  return read;
}

/** Returns the ids of the items that still belonged to this process; the types of pg-boss do not declare them. */
function changedIds(response: object): Set<unknown> {
  if ('settled' in response && Array.isArray(response.settled)) return new Set<unknown>(response.settled);
  throw new Error('the queue does not report what it has changed');
}
