// The work queue that processes on one Postgres share (pg-boss): queues items, takes them, and awaits results.
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
  type ItemOf,
  keyOf,
  type QueuedItem,
  QUEUE_POLICIES,
  type ItemEnd,
  type WorkHandler,
  type WorkItem,
  type WorkKind,
} from './work-items.ts';

interface WorkQueueOptions {
  /** Of any source of the database. */
  address: string;
  clock: Clock;
  failed: (error: unknown) => void;
}

/** Between two searches for items whose worker is dead. */
const SUPERVISE_SECONDS = 3;
const MAINTAIN_SECONDS = 300;
const HOUR_SECONDS = 3_600;
const DAY_SECONDS = 86_400;
/** How long an item waits for a process. */
const MONTH_SECONDS = 30 * DAY_SECONDS;
/** An item may be returned any number of times: only a user cancels work. */
const NO_LIMIT = 2_000_000_000;
/** Between two attempts to open a queue whose server is unreachable. */
const REOPEN_MS = 3_000;
/** Long enough for a restart of the server; pg-boss retries by itself. */
const RECONNECT_TIMEOUT_MS = 10_000;

const FIND = `SELECT id::text AS id, state = 'active' AS "isStarted" FROM ${BOSS_SCHEMA}.job
  WHERE name = $1 AND singleton_key = $2 AND state <= 'active'`;
/** Only recently returned items: if all workers are busy, an older one waits like every other. */
const RETURNED = `SELECT singleton_key AS key FROM ${BOSS_SCHEMA}.job
  WHERE name = $1 AND singleton_key = ANY($2) AND state = 'retry' AND start_after > now() - interval '15 s'`;

/** One statement polls for all awaited results. */
const OUTCOMES_INTERVAL_MS = 1_000;
const OUTCOMES = `SELECT id::text AS id, state::text AS state, output::text AS output
  FROM ${BOSS_SCHEMA}.job WHERE id = ANY($1::uuid[])`;

/**
 * The work of all processes on one database, in tables of pg-boss. Opens the queue as soon as the server is reachable;
 * the constructor throws nothing. All methods throw `SyncError`.
 */
export class WorkQueue {
  /** Resolves once items can be queued; rejects if the queue is closed before. */
  readonly opened: Promise<void>;
  readonly #options: WorkQueueOptions;
  readonly #closing = new AbortController();
  readonly #statements: SharedStatements;
  /** Loaded with the first queue: a process without one never needs it. */
  readonly #boss: Promise<PgBoss>;
  /** Results that are awaited, by the ids of their items. */
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

  /** Queues an item, or finds the same one. */
  async put(item: WorkItem): Promise<QueuedItem> {
    await this.opened;
    const id = randomUUID();
    const { execute } = this.#statements;
    for (;;) {
      this.#closing.signal.throwIfAborted();
      if (await insertItem(item, execute, id)) return { id, isStarted: false };
      const { rows } = await execute<{ id: string; isStarted: boolean }>(FIND, [item.kind, keyOf(item)]);
      const [found] = rows;
      // If it has this id, it was inserted and the response was lost. If it is missing, it ended in between.
      if (found !== undefined) return found;
    }
  }

  /** Resolves with the result of an item once any process has done it; null if the result is not known any more. */
  async outcome(id: string, signal: AbortSignal): Promise<unknown> {
    const awaited = this.#awaited.get(id) ?? Promise.withResolvers<unknown>();
    // The caller may stop waiting before.
    awaited.promise.catch(() => undefined);
    this.#awaited.set(id, awaited);
    return unlessAborted(awaited.promise, AbortSignal.any([signal, this.#closing.signal]));
  }

  /** Those of the keys whose item was just returned and is about to be taken again. */
  async returnedKeys(kind: WorkKind, keys: readonly string[]): Promise<string[]> {
    await this.opened;
    const { rows } = await this.#statements.execute<{ key: string }>(RETURNED, [kind, keys]);
    return rows.map(({ key }) => key);
  }

  /** Resolves once the database has answered; rejects with what it throws. */
  async probe(): Promise<void> {
    await this.opened;
    await this.#statements.run('SELECT 1', [], 0);
  }

  /** Takes items of a kind from now on, at most `atOnce` in parallel. */
  work<Kind extends WorkKind>(kind: Kind, atOnce: number, handler: WorkHandler<Kind, unknown>): void {
    const { clock, failed } = this.#options;
    const [unrepeated, closing] = [toDb(this.#statements, 0), this.#closing.signal];
    const begin = (boss: PgBoss): void => {
      if (closing.aborted) return;
      const parts = { kind, atOnce, boss, unrepeated, handler, clock, closing, failed };
      this.#workers.set(kind, new ItemWorker(parts));
    };
    this.opened.then(() => this.#boss).then(begin, () => undefined);
  }

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
    const { rows } = await execute<{ id: string; state: string; output: string | null }>(OUTCOMES, [ids]);
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

/** The connection for pg-boss; `timeoutMs` is 0 for statements that must not be repeated. */
function toDb(statements: SharedStatements, timeoutMs: number): Db {
  return { executeSql: (text, values) => statements.run(text, values, timeoutMs) };
}

async function createBoss(db: Db, { failed }: WorkQueueOptions): Promise<PgBoss> {
  const { PgBoss } = await import('pg-boss');
  const boss = new PgBoss({
    db,
    schema: BOSS_SCHEMA,
    // The stored state decides when a sync is due.
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
  /** For taking items: a repeated statement would take an item that no process handles. */
  unrepeated: Db;
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

/** How often a process asks for items unless it is woken. */
const POLL_MS = 1_000;
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

  /** Resolves once every item in progress is done or returned, which `closing` must ask for. */
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
    const { kind, boss, unrepeated } = this.#options;
    const ignoreGroups = [...this.#unknownSources];
    const [job] = await boss.fetch<ItemOf<Kind>>(kind, { db: unrepeated, ignoreGroups, includeMetadata: true });
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
    // If this fails, the item goes to another process, because its heartbeat ends.
    await this.#store(attempt, end).catch(failed);
    const wasFull = this.#attempts.size >= atOnce;
    this.#attempts.delete(attempt.id);
    if (wasFull) this.wake();
  }

  /** By id and retry count, so that nothing changes if another process has taken the item over. */
  async #store({ id, retryCount }: ItemAttempt, end: ItemEnd<unknown>): Promise<void> {
    const { kind, boss } = this.#options;
    if (end.is === 'done')
      return void (await boss.complete(kind, [{ id, retryCount }], { result: toJsonb(end.result) }));
    // To pg-boss a returned item is a failed one, which it offers again.
    const returned = settledIds(await boss.fail(kind, [{ id, retryCount }]));
    const startAfter = end.is === 'returned' ? Math.round(end.afterMs / 1_000) : 0;
    if (returned.has(id) && startAfter > 0) await boss.update(kind, undefined, { id, startAfter });
  }

  /** One statement for all items in progress. */
  async #sendHeartbeats(): Promise<void> {
    const { kind, boss } = this.#options;
    const attempts = [...this.#attempts.values()];
    if (attempts.length === 0) return;
    const takenOver = new SyncError('interrupted', 'another process has taken this work over', { recovery: 'stop' });
    try {
      const touched = attempts.map(({ id, retryCount }) => ({ id, retryCount }));
      const stillHeld = settledIds(await boss.touch(kind, touched));
      for (const { id, lost } of attempts) {
        if (!stillHeld.has(id) && this.#attempts.has(id)) lost.abort(takenOver);
      }
    } catch {
      // While the server is unreachable no item changes hands; a lost one shows at the next heartbeat.
    }
  }
}

/** A result as jsonb can store it: without NUL and lone surrogates. */
function toJsonb(value: unknown): JsonValue {
  const text = JSON.stringify(value ?? null, (_, part: unknown) =>
    typeof part === 'string' ? part.toWellFormed().replaceAll('\0', '\u{FFFD}') : part,
  );
  const read: JsonValue = JSON.parse(text);
  return read;
}

/** The ids of the items that still were this process's; pg-boss returns them without declaring it in its types. */
function settledIds(response: object): Set<unknown> {
  if ('settled' in response && Array.isArray(response.settled)) return new Set<unknown>(response.settled);
  throw new Error('the queue does not report what it has changed');
}
