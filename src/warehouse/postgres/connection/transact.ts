import { escapeIdentifier, type Pool, type PoolClient } from 'pg';
import type { Clock } from '../../../model/clock.ts';
import type { ExecuteSql, SqlResult } from '../../database.ts';
import { LAST_DONE, migratedMeanwhile } from '../../migrate.ts';
import { leaseLost, type LeaseProof } from '../../warehouse.ts';
import { Batch, type Step } from './batch.ts';
import { isCommitted, leaveMark, newMark, type CommitMark } from './commit-marks.ts';
import { databaseError, remedyOf } from './errors.ts';
import { onlyRow, queryOf, sessionOf, type Session } from './session.ts';

/** How long a transaction is tried again while the server is not there, and how often while others are in the way. */
const RETRY_FOR_MS = 60_000;
const MOST_REPLAYS = 5;
const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 1_000;
/** A statement that takes longer hangs: no page of ours does. */
const STATEMENT_MS = 60_000;
/** Longer than the server may take to notice that the one who held a lock is gone. */
const LOCK_MS = 10_000;
/** Between two statements: a process that is frozen there must not keep its locks from those who take over. */
const FROZEN_MS = 10_000;

/** An answer that the server has sent is here after this long. */
const NETWORK_MS = 10_000;

export interface TransactOptions {
  /** How long to wait for the server; a minute if absent. 0 for one attempt. */
  retryForMs?: number;
  /** How long to ask what became of a transaction whose COMMIT got no answer; a minute if absent. */
  decideMs?: number;
  /** True if the work does no harm when it is done again: then it leaves no mark, and is done again. */
  mayRepeat?: boolean;
  statementMs?: number;
  lockMs?: number;
  /** Under which the transaction is committed, or not at all. */
  lease?: LeaseProof;
  /** Statements that begin each attempt, in the round trip that begins the transaction. */
  opening?: () => readonly Step[];
}

/** One source's tables in one database, and how to reach them. */
export interface Database {
  readonly pool: Pool;
  readonly schema: string;
  /** For messages. */
  readonly shown: string;
  readonly clock: Clock;
  readonly random: () => number;
}

/**
 * Runs `work` in one transaction with the source's schema as search path. It is run again, whole, if other sessions
 * were in the way or the connection was lost, and not again if it turns out to have been committed. So `work` must
 * begin from nothing each time. Throws `SyncError`.
 */
export async function transact<T>(
  database: Database,
  work: (session: Session) => Promise<T>,
  options: TransactOptions = {},
): Promise<T> {
  return retryWhileLocked(database, options.retryForMs ?? RETRY_FOR_MS, () => attempt(database, work, options));
}

/** Runs one statement outside of a transaction, with the same retries: it may run twice. Throws `SyncError`. */
export function execute(database: Database, options: TransactOptions = {}): ExecuteSql {
  return (text, values) =>
    retryWhileLocked(database, options.retryForMs ?? RETRY_FOR_MS, () =>
      // Not by the pool, which gives a connection up for whatever the server refuses.
      onClient(database, (client) =>
        client.query(queryOf(text, values, (options.statementMs ?? STATEMENT_MS) + NETWORK_MS)),
      ),
    );
}

/**
 * The same with the settings of our transactions. What is sent as one question is one transaction to the server, without
 * the round trips and statements that begin and end one.
 */
export function executeInUtc(database: Database) {
  const settings = { text: SETTINGS, values: settingsOf(database, {}) };
  return (text: string, values: readonly unknown[] = []): Promise<SqlResult<object>> =>
    retryWhileLocked(database, RETRY_FOR_MS, () =>
      onClient(database, async (client) => {
        const [, answer] = await client.query(new Batch([settings, { text, values }], STATEMENT_MS + NETWORK_MS)).done;
        return { rows: answer?.rows ?? [], rowCount: answer?.rowCount ?? null };
      }),
    );
}

/** Runs what does no harm when it is done twice, until the server is there again. Throws `SyncError`. */
export async function retryWhileLocked<T>(database: Database, retryForMs: number, work: () => Promise<T>): Promise<T> {
  const { clock, random, shown } = database;
  const deadline = clock.monotonic() + retryForMs;
  let replays = 0;
  for (let failures = 0; ; failures += 1) {
    try {
      return await work();
    } catch (error) {
      const remedy = remedyOf(error);
      if (remedy === 'replay') replays += 1;
      const isOver = clock.monotonic() >= deadline || replays > MOST_REPLAYS;
      if (remedy === 'none' || isOver) throw databaseError(error, shown);
    }
    const pause = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failures);
    await clock.sleep(pause * (0.5 + random() / 2));
  }
}

/** One attempt. */
function attempt<T>(database: Database, work: (session: Session) => Promise<T>, options: TransactOptions): Promise<T> {
  return onClient(database, (client) => begunOn(client, database, work, options));
}

/** A connection on which anything went wrong is not used again. */
async function onClient<T>({ pool }: Database, work: (client: PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  let failure: unknown = null;
  try {
    return await work(client);
  } catch (error) {
    failure = error;
    throw error;
  } finally {
    client.release(failure !== null && !(await rolledBack(client, failure)));
  }
}

async function begunOn<T>(
  client: PoolClient,
  database: Database,
  work: (session: Session) => Promise<T>,
  options: TransactOptions,
): Promise<T> {
  const answerMs = (options.statementMs ?? STATEMENT_MS) + NETWORK_MS;
  const mark = newMark(client);
  await begin(client, database, mark, options);
  const result = await work(sessionOf(client, answerMs));
  try {
    await client.query(queryOf('COMMIT', undefined, answerMs));
  } catch (error) {
    // Sent, and no answer: only the server knows.
    if (remedyOf(error) !== 'server' || options.mayRepeat === true) throw error;
    if (!(await decided(database, mark, options))) throw error;
  }
  options.lease?.committed();
  return result;
}

/** Throws if nobody answers: then the lease counts it, so that its next transaction finds out. */
async function decided(database: Database, mark: CommitMark, { decideMs, lease }: TransactOptions): Promise<boolean> {
  try {
    return await isCommitted(mark, execute(database, { retryForMs: decideMs ?? RETRY_FOR_MS }));
  } catch (error) {
    lease?.committed();
    throw error;
  }
}

/**
 * Settings of the session go with the transaction, so that a pooler may lend its connections one transaction at a time.
 * What this process takes for committed must outlive the server, because the process does: `synchronous_commit` is
 * raised if it is less; more than that, as set to wait for replicas, stays.
 */
const SETTINGS = `SELECT set_config('search_path', $1, true), set_config('timezone', 'UTC', true),
  set_config('synchronous_commit', CASE current_setting('synchronous_commit')
    WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true), set_config('statement_timeout', $2, true),
  set_config('lock_timeout', $3, true), set_config('idle_in_transaction_session_timeout', $4, true)`;

function settingsOf(
  { schema }: Database,
  { statementMs = STATEMENT_MS, lockMs = LOCK_MS }: TransactOptions,
): unknown[] {
  return [escapeIdentifier(schema), statementMs, lockMs, FROZEN_MS];
}

async function begin(
  client: PoolClient,
  database: Database,
  mark: CommitMark,
  options: TransactOptions,
): Promise<void> {
  const { statementMs = STATEMENT_MS, mayRepeat = false, lease, opening } = options;
  const values = settingsOf(database, options);
  const begun = [{ text: 'BEGIN' }, { text: SETTINGS, values }, ...(mayRepeat ? [] : [leaveMark(mark)])];
  const steps = [...begun, ...(lease === undefined ? [] : [leaseStep(lease)]), ...(opening?.() ?? [])];
  const answerMs = steps.length === begun.length ? NETWORK_MS : statementMs + NETWORK_MS;
  await client.query(new Batch(steps, answerMs)).done;
}

/** True if a connection can be used again. */
async function rolledBack(client: PoolClient, failure: unknown): Promise<boolean> {
  if (remedyOf(failure) === 'server') return false;
  return client.query(queryOf('ROLLBACK', undefined, NETWORK_MS)).then(
    () => true,
    () => false,
  );
}

/**
 * Holds the lease's row until the transaction is over, so that nobody takes the resource over meanwhile. Throws
 * `lease_lost` if somebody has, or if the database was set back to an earlier state, and `warehouse_newer` if
 * a newer version has migrated the tables meanwhile.
 */
function leaseStep({ name, token, fence, expiresAt, commits }: LeaseProof): Step {
  return {
    // One step may take several transactions under one proof: the lease's own renewals in between stay.
    text: `UPDATE "_sync_leases" SET "expires_at" = greatest("expires_at", $1::timestamptz), "commits" = "commits" + 1
      WHERE "name" = $2 AND "token" = $3 AND "fence" = $4 AND "commits" >= $5 RETURNING ${LAST_DONE} AS "lastDone"`,
    values: [expiresAt, name, token, fence, commits()],
    refuse: ({ lastDone }) => migratedMeanwhile(lastDone),
    ifNone: () => leaseLost(name),
  };
}

/** Epoch milliseconds, with a fraction; not those of the statement's begin, which may have waited. */
export const NOW_MS = '(extract(epoch FROM clock_timestamp()) * 1000)::float8';

/** The time by the database's own clock, the one that all machines have in common. */
export async function databaseNow(database: Database): Promise<number> {
  return onlyRow(await execute(database)<{ now: number }>(`SELECT ${NOW_MS} AS now`)).now;
}
