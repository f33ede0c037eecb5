import { randomUUID } from 'node:crypto';
import type { Db, PgBoss } from 'pg-boss';
import type { SharedStatements } from '../../database/database.ts';
import { sharedDatabase } from '../../database/databases.ts';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import {
  BOSS_SCHEMA,
  insertItem,
  keyOf,
  KINDS_OF_WORK,
  type QueuedItem,
  WORK_KINDS,
  type WorkHandler,
  type WorkItem,
  type WorkKind,
} from './work-items.ts';
import { ItemWorker } from './item-worker.ts';
import { sleepOrAbort, unlessAborted } from '../../model/waiting.ts';

interface BossQueueOptions {
  /** Of any source of the database. */
  address: string;
  clock: Clock;
  /** Called with errors that pass by themselves. */
  failed: (error: unknown) => void;
  /** Seconds between two looks for items whose worker is dead; 10 if absent. */
  superviseSeconds?: number;
}

const SUPERVISE_SECONDS = 3;
const MAINTAIN_SECONDS = 300;
const HOUR_SECONDS = 3_600;
const DAY_SECONDS = 86_400;
/** An item may be given back any number of times: only a person cancels work. */
const NO_LIMIT = 2_000_000_000;
/** Between two attempts to open a queue whose server is not there. */
const REOPEN_MS = 3_000;
/** Long enough for a restart of the server; the engine asks again by itself. */
const PATIENCE_MS = 10_000;

const FIND = `SELECT id::text AS id, state = 'active' AS "isUnderWay" FROM ${BOSS_SCHEMA}.job
  WHERE name = $1 AND singleton_key = $2 AND state <= 'active'`;
/** Only items given back lately: if all workers are busy, an older one waits like every other, and nobody needs to yield. */
const COMING_BACK = `SELECT singleton_key AS key FROM ${BOSS_SCHEMA}.job
  WHERE name = $1 AND singleton_key = ANY($2) AND state = 'retry' AND start_after > now() - interval '15 s'`;

/** How often all results that are waited for are asked for, in one statement. */
const OUTCOMES_MS = 1_000;
const OUTCOMES = `SELECT id::text AS id, state::text AS state, output::text AS output
  FROM ${BOSS_SCHEMA}.job WHERE id = ANY($1::uuid[])`;

interface JobRow extends Record<string, unknown> {
  id: string;
  state: string;
  output: string | null;
}

/**
 * The work of all processes on one database, in tables of pg-boss. Opens the queue as soon as the server is there; the
 * constructor throws nothing. All methods throw `SyncError`.
 */
export class WorkQueue {
  /** Resolves once items can be queued; rejects if the queue is closed before. */
  readonly opened: Promise<void>;
  readonly #options: BossQueueOptions;
  readonly #closing = new AbortController();
  readonly #statements: SharedStatements;
  /** Loaded with the first queue: a process without one never needs it. */
  readonly #boss: Promise<PgBoss>;
  /** Results that are waited for, by the ids of their items. */
  readonly #awaited = new Map<string, PromiseWithResolvers<unknown>>();
  #isAsking = false;
  readonly #workers = new Map<WorkKind, { wake(): void; welcome(source: string): void; idle(): Promise<void> }>();

  constructor(options: BossQueueOptions) {
    this.#options = options;
    const shared = sharedDatabase(options.address);
    if (shared === null) throw new Error('a queue needs a database that many processes share');
    this.#statements = shared.connect(options.clock);
    this.#boss = engine(engineAccess(this.#statements, PATIENCE_MS), options);
    this.opened = this.#open();
    // A queue may be closed before it is opened, and nobody may wait for that.
    this.opened.catch(() => undefined);
  }

  /** Queues an item, or finds the same one. */
  async put(item: WorkItem): Promise<QueuedItem> {
    await this.opened;
    const id = randomUUID();
    const ask = this.#statements.execute;
    for (;;) {
      this.#closing.signal.throwIfAborted();
      if ((await insertItem(item, ask, id)) !== null) return { id, isNew: true, isUnderWay: false };
      const { rows } = await ask<Omit<QueuedItem, 'isNew'> & Record<string, unknown>>(FIND, [item.kind, keyOf(item)]);
      const [found] = rows;
      // Found with this id: it was inserted, and the answer got lost. Not found: the same item ended in between.
      if (found !== undefined) return { ...found, isNew: found.id === id };
    }
  }

  /** Resolves with the result of an item once any process has done it; null if the result is not known any more. */
  async outcome(id: string, signal: AbortSignal): Promise<unknown> {
    const awaited = this.#awaited.get(id) ?? Promise.withResolvers<unknown>();
    // Whoever waits may give up before.
    awaited.promise.catch(() => undefined);
    this.#awaited.set(id, awaited);
    if (!this.#isAsking) void this.#askOutcomes();
    return unlessAborted(awaited.promise, AbortSignal.any([signal, this.#closing.signal]));
  }

  /** Those of the keys whose item was given back just now and is about to be taken again. */
  async comingBack(kind: WorkKind, keys: readonly string[]): Promise<Set<string>> {
    await this.opened;
    const { rows } = await this.#statements.execute<{ key: string }>(COMING_BACK, [kind, keys]);
    return new Set(rows.map(({ key }) => key));
  }

  /** Resolves once the database has answered; rejects with what it throws. */
  async probe(): Promise<void> {
    await this.opened;
    await this.#statements.run('SELECT 1', [], 0);
  }

  /** Takes items of a kind from now on, at most `atOnce` at a time. */
  work<Kind extends WorkKind>(kind: Kind, atOnce: number, handler: WorkHandler<Kind, unknown>): void {
    const { clock, failed } = this.#options;
    const [single, closing] = [engineAccess(this.#statements, 0), this.#closing.signal];
    const done = (id: string, result: unknown): void => this.#awaited.get(id)?.resolve(result);
    const begin = (boss: PgBoss): void => {
      if (closing.aborted) return;
      this.#workers.set(kind, new ItemWorker({ kind, atOnce, boss, single, handler, clock, closing, done, failed }));
    };
    this.opened.then(() => this.#boss).then(begin, () => undefined);
  }

  /** Looks for items of a kind now. */
  wake(kind: WorkKind): void {
    this.#workers.get(kind)?.wake();
  }

  /** Takes items of this source again, which was not in the settings of this process before. */
  welcome(source: string): void {
    for (const worker of this.#workers.values()) worker.welcome(source);
  }

  /** Gives back the items under way, and closes. */
  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort(new SyncError('interrupted', 'the process is ending', { recovery: 'stop' }));
    await this.opened.catch(() => undefined);
    await Promise.all(Array.from(this.#workers.values(), (each) => each.idle()));
    await (await this.#boss).stop({ graceful: false });
    await this.#statements.close();
  }

  async #askOutcomes(): Promise<void> {
    this.#isAsking = true;
    while (this.#awaited.size > 0 && !this.#closing.signal.aborted) {
      await sleepOrAbort(this.#options.clock, OUTCOMES_MS, this.#closing.signal);
      const ids = [...this.#awaited.keys()];
      // While the server is away, they go on waiting.
      const asked = await this.#statements.execute<JobRow>(OUTCOMES, [ids]).catch(() => null);
      const found = new Map(asked?.rows.map((row) => [row.id, row]));
      for (const id of asked === null ? [] : ids) this.#settle(id, found.get(id));
    }
    this.#isAsking = false;
  }

  #settle(id: string, row: JobRow | undefined): void {
    const isOver = row === undefined || OVER.has(row.state);
    if (!isOver) return;
    const awaited = this.#awaited.get(id);
    this.#awaited.delete(id);
    if (row === undefined || row.state === 'completed') awaited?.resolve(resultOf(JSON.parse(row?.output ?? 'null')));
    else awaited?.reject(givenUp(row.state));
  }

  async #open(): Promise<void> {
    const { clock, failed } = this.#options;
    const { signal } = this.#closing;
    const boss = await this.#boss;
    for (;;) {
      signal.throwIfAborted();
      try {
        await boss.start();
        for (const kind of KINDS_OF_WORK) await makeQueue(boss, kind);
        return;
      } catch (error) {
        failed(error);
      }
      await clock.sleep(REOPEN_MS, signal);
    }
  }
}

const OVER: ReadonlySet<string> = new Set(['completed', 'failed', 'cancelled']);

/** The engine's way to the database; `patienceMs` is 0 for what must not be done twice. */
function engineAccess(statements: SharedStatements, patienceMs: number): Db {
  return { executeSql: (text, values) => statements.run(text, values, patienceMs) };
}

async function engine(db: Db, options: BossQueueOptions): Promise<PgBoss> {
  const { failed, superviseSeconds = SUPERVISE_SECONDS } = options;
  const { PgBoss } = await import('pg-boss');
  const boss = new PgBoss({
    db,
    schema: BOSS_SCHEMA,
    // Schedules are ours: the stored state says when a walk is due.
    schedule: false,
    superviseIntervalSeconds: superviseSeconds,
    monitorIntervalSeconds: superviseSeconds,
    maintenanceIntervalSeconds: MAINTAIN_SECONDS,
    flowIntervalSeconds: HOUR_SECONDS,
    bamIntervalSeconds: HOUR_SECONDS,
    queueCacheIntervalSeconds: HOUR_SECONDS,
  });
  // Without a listener it would end the process.
  boss.on('error', failed);
  return boss;
}

async function makeQueue(boss: PgBoss, kind: WorkKind): Promise<void> {
  const { heartbeatSeconds, deleteAfterSeconds } = WORK_KINDS[kind];
  const times = { heartbeatSeconds, deleteAfterSeconds, expireInSeconds: DAY_SECONDS };
  const rest = { retentionSeconds: 30 * DAY_SECONDS, retryLimit: NO_LIMIT, retryDelay: 0 };
  // At most one item of a key is queued or under way.
  await boss.createQueue(kind, { policy: 'exclusive', ...times, ...rest });
}

function resultOf(output: unknown): unknown {
  return typeof output === 'object' && output !== null && 'result' in output ? output.result : null;
}

function givenUp(state: string): SyncError {
  return new SyncError('work_lost', `the work was ${state} in the queue`, {
    recovery: 'retry',
    hint: 'somebody has changed it in the schema content_sync_boss; the schedule asks for it again',
  });
}
