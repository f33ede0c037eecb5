import { escapeIdentifier, type Pool, type PoolClient } from 'pg';
import type { Clock } from '../../../model/clock.ts';
import type { ExecuteSql } from '../../database.ts';
import { LAST_DONE, migratedMeanwhile } from '../../migrate.ts';
import { leaseLost, type LeaseProof } from '../../warehouse.ts';
import { Batch, type Step, onlyRow, queryOf, sessionOf, type Session } from './session.ts';
import { SyncError } from '../../../model/errors.ts';
import { databaseError, errorCode, remedyOf } from './errors.ts';
import { randomUUID } from 'node:crypto';
import * as commits from '../../../../migrations/commits/001-commits.ts';

/** How long a transaction is tried again while the server is not there, and how often while others are in the way. */
const RETRY_FOR_MS = 60_000;
const MOST_REPLAYS = 5;
const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 1_000;
/** A statement that takes longer hangs: no page takes that long. */
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
  /** How long to try again while other sessions hold a lock; only a few times if absent. */
  lockedForMs?: number;
  /** How long to ask what became of a transaction whose COMMIT got no answer; a minute if absent. */
  decideMs?: number;
  /** True if the work does no harm when it is done again: then it leaves no mark, and is done again. */
  mayRepeat?: boolean;
  statementMs?: number;
  lockMs?: number;
  /** Under which the transaction is committed, or not at all. */
  lease?: LeaseProof;
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
  return retrying(database, options, () => onClient(database, (client) => begunOn(client, database, work, options)));
}

/** Runs one statement outside of a transaction, with the same retries: it may run twice. Throws `SyncError`. */
export function execute(database: Database, options: TransactOptions = {}): ExecuteSql {
  return (text, values) =>
    retrying(database, options, () =>
      // Not by the pool, which gives a connection up for whatever the server refuses.
      onClient(database, (client) =>
        client.query(queryOf(text, values, (options.statementMs ?? STATEMENT_MS) + NETWORK_MS)),
      ),
    );
}

/** The same with the settings of our transactions, such as the zone. */
export function executeInUtc(database: Database): ExecuteSql {
  return (text, values) => transact(database, (session) => session.execute(text, values), { mayRepeat: true });
}

/** Runs work that does no harm when it is done twice, until the server is there again. Throws `SyncError`. */
export async function retrying<T>(
  { clock, random, shown }: Database,
  { retryForMs = RETRY_FOR_MS, lockedForMs }: TransactOptions,
  work: () => Promise<T>,
): Promise<T> {
  const begun = clock.monotonic();
  let replays = 0;
  for (let failures = 0; ; failures += 1) {
    try {
      return await work();
    } catch (error) {
      const remedy = remedyOf(error);
      const waited = clock.monotonic() - begun;
      const mayWaitForLock = lockedForMs !== undefined && waited < lockedForMs && isLocked(error);
      if (remedy === 'replay') replays += 1;
      const isOver = waited >= retryForMs || replays > MOST_REPLAYS;
      if (remedy === 'none' || (isOver && !mayWaitForLock)) throw databaseError(error, shown);
    }
    const pause = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failures);
    await clock.sleep(pause * (0.5 + random() / 2));
  }
}

/** SQLSTATE of the server's error that caused one of our errors. */
export function causeCode(error: unknown): string {
  return errorCode(error instanceof SyncError ? error.cause : error);
}

/** True if another session held a lock, or a deadlock was broken. */
export function isLocked(error: unknown): boolean {
  return ['55P03', '40P01'].includes(causeCode(error));
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
  const mark = options.mayRepeat === true ? null : newMark(client);
  // To hold the lease may take until another transaction is over.
  const beginMs = options.lease === undefined ? NETWORK_MS : answerMs;
  await client.query(new Batch(beginning(database, mark, options), beginMs)).done;
  const result = await work(sessionOf(client, answerMs));
  await commit(client, database, mark, options, answerMs);
  if (mark !== null) keepMark(client, mark);
  return result;
}

/** Throws unless the transaction is committed; `mark` is null if it does no harm when the work is done again. */
async function commit(
  client: PoolClient,
  database: Database,
  mark: CommitMark | null,
  options: TransactOptions,
  answerMs: number,
): Promise<void> {
  try {
    await client.query(queryOf('COMMIT', undefined, answerMs));
  } catch (error) {
    // Sent, and no answer: only the server knows.
    if (remedyOf(error) !== 'server' || mark === null) throw error;
    if (!(await decided(database, mark, options))) throw error;
  }
  options.lease?.committed();
}

/** Throws if the server does not answer: then the lease counts the commit, so that its next transaction finds out. */
async function decided(database: Database, mark: CommitMark, { decideMs, lease }: TransactOptions): Promise<boolean> {
  try {
    return await isCommitted(mark, execute(database, { retryForMs: decideMs ?? RETRY_FOR_MS }));
  } catch (error) {
    lease?.committed();
    throw error;
  }
}

const SETTINGS = `SELECT ${settingsFrom(1)}`;

function settingsOf(
  { schema }: Database,
  { statementMs = STATEMENT_MS, lockMs = LOCK_MS }: TransactOptions,
): unknown[] {
  return [escapeIdentifier(schema), statementMs, lockMs, FROZEN_MS];
}

/** The steps that begin a transaction. */
function beginning(database: Database, mark: CommitMark | null, options: TransactOptions): Step[] {
  const values = settingsOf(database, options);
  const begun = [{ text: 'BEGIN' }, mark === null ? { text: SETTINGS, values } : leaveMark(mark, values)];
  return options.lease === undefined ? begun : [...begun, leaseStep(options.lease)];
}

/**
 * Holds the lease's row until the transaction is over, so that no other process takes the resource over meanwhile. Fails
 * with `lease_lost` if one has, or if the database was set back to an earlier state, and with `warehouse_newer` if a
 * newer version has migrated the tables meanwhile.
 */
function leaseStep({ name, token, fence, expiresAt, commits }: LeaseProof): Step {
  return {
    text: HOLD,
    values: [expiresAt, name, token, fence, commits()],
    ifNone: () => leaseLost(name),
    refuse: ({ last }) => migratedMeanwhile(last),
  };
}

/** One step may take several transactions under one proof: the lease's own renewals in between stay. */
const HOLD = `UPDATE "_sync_leases" SET "expires_at" = greatest("expires_at", $1::timestamptz), "commits" = "commits" + 1
  WHERE "name" = $2 AND "token" = $3 AND "fence" = $4 AND "commits" >= $5 RETURNING ${LAST_DONE} AS "last"`;

/** True if a connection can be used again. */
async function rolledBack(client: PoolClient, failure: unknown): Promise<boolean> {
  if (remedyOf(failure) === 'server') return false;
  return client.query(queryOf('ROLLBACK', undefined, NETWORK_MS)).then(
    () => true,
    () => false,
  );
}

/** Epoch milliseconds, with a fraction; not those of the statement's begin, which may have waited. */
export const NOW_MS = '(extract(epoch FROM clock_timestamp()) * 1000)::float8';

/** The time by the database's own clock, the one that all machines have in common. */
export async function databaseNow(database: Database): Promise<number> {
  return onlyRow(await execute(database)<{ now: number }>(`SELECT ${NOW_MS} AS now`)).now;
}

/**
 * A transaction leaves a mark of its connection's, so that a session that got no answer to it can ask. A number of the
 * server's would not do: after a crash it reuses those that it had not written to disk.
 */
export const COMMIT_MARKS = { migrations: { '001-commits': commits }, table: 'commits_migrations' };
/** One per database, for all sources; it holds the coordination tables too. */
export const COMMON_SCHEMA = 'content_sync';
/** Deletes the marks of closed connections: no connection is idle for a day. */
export const FORGET_OLD_MARKS = `DELETE FROM ${COMMON_SCHEMA}.commits WHERE changed_at < now() - interval '1 day'`;

/**
 * Settings of the session go with the transaction, so that a pooler may lend its connections one transaction at a time.
 * What this process takes for committed must outlive the server, because the process does: `synchronous_commit` is
 * raised if it is less; more than that, as set to wait for replicas, stays. Names of types are compared as Postgres
 * prints them, so it must not quote them all. Five values from the first parameter on.
 */
function settingsFrom(first: number): string {
  return `set_config('search_path', $${first}, true), set_config('timezone', 'UTC', true),
  set_config('quote_all_identifiers', 'off', true),
  set_config('synchronous_commit', CASE current_setting('synchronous_commit')
    WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true), set_config('statement_timeout', $${first + 1}, true),
  set_config('lock_timeout', $${first + 2}, true), set_config('idle_in_transaction_session_timeout', $${first + 3}, true)`;
}

/**
 * Changes no row if the mark is not the one that this connection has left last: another connection has read it, and
 * concluded that this transaction was not committed. It waits for no other lock, so the settings go with it.
 */
const LEAVE = `INSERT INTO ${COMMON_SCHEMA}.commits AS last (connection, mark) VALUES ($1, $2)
  ON CONFLICT (connection) DO UPDATE SET mark = excluded.mark, changed_at = now() WHERE last.mark = $3
  RETURNING ${settingsFrom(4)}`;
/**
 * Written, not only read: so it waits for a transaction that is still being committed, and one that has not even begun
 * is never committed afterwards.
 */
const ASK = `INSERT INTO ${COMMON_SCHEMA}.commits AS last (connection, mark) VALUES ($1, $2)
  ON CONFLICT (connection) DO UPDATE SET mark = CASE WHEN last.mark = $3 THEN last.mark ELSE excluded.mark END
  RETURNING mark`;

/** One attempt at a transaction. */
interface CommitMark {
  connection: string;
  mark: string;
  /** What the connection's transaction before has left; null for its first one. */
  last: string | null;
}

const lastMarks = new WeakMap<PoolClient, Pick<CommitMark, 'connection' | 'mark'>>();

/** A connection has one transaction at a time, so that no two wait for each other's mark. */
function newMark(client: PoolClient): CommitMark {
  const last = lastMarks.get(client);
  const mark = randomUUID();
  // After a failed transaction the connection starts with a new mark: the state of the old one is unknown.
  lastMarks.delete(client);
  return { connection: last?.connection ?? randomUUID(), mark, last: last?.mark ?? null };
}

/** To be called when it is committed. */
function keepMark(client: PoolClient, { connection, mark }: CommitMark): void {
  lastMarks.set(client, { connection, mark });
}

/** To be run within the transaction; `settings` are the values of `settingsFrom`. */
function leaveMark({ connection, mark, last }: CommitMark, settings: readonly unknown[]): Step {
  return { text: LEAVE, values: [connection, mark, last, ...settings], ifNone: overtaken };
}

/** The transaction is tried again, on a connection that has left no mark. */
function overtaken(): Error {
  return Object.assign(new Error('another session was told that this transaction was not committed'), {
    code: SERIALIZATION_FAILURE,
  });
}

const SERIALIZATION_FAILURE = '40001';

/** Asks, on another connection, whether a transaction was committed; the answer never changes afterwards. */
async function isCommitted({ connection, mark }: CommitMark, ask: ExecuteSql): Promise<boolean> {
  const { rows } = await ask<{ mark: string }>(ASK, [connection, randomUUID(), mark]);
  return rows[0]?.mark === mark;
}
