// Runs transactions and single statements, again after conflicts and lost connections, and commits each exactly once.
//
// If the connection is lost after COMMIT was sent, the client does not know whether the transaction was committed, and
// might write everything twice. So each transaction also writes a mark, a random id, into the row of its connection in
// `content_sync.commits`. Another connection then looks whether that mark is there (`isCommitted`). A transaction number
// would not do: after a crash the server assigns those again that it had not written to disk.
import { randomUUID } from 'node:crypto';
import { escapeIdentifier, type Pool, type PoolClient } from 'pg';
import * as commits from '../../../../migrations/commits/001-commits.ts';
import type { Clock } from '../../../model/clock.ts';
import { errorCode, SyncError } from '../../../model/errors.ts';
import type { ExecuteSql } from '../../database.ts';
import { LAST_APPLIED, newerMigrationError } from '../../migrate.ts';
import { leaseLost, type LeaseProof } from '../../warehouse.ts';
import { databaseError, remedyOf } from './errors.ts';
import { createSession, onlyRow, type Session, type Step, toQuery } from './session.ts';

/** The migrations that create the table of marks. */
export const COMMIT_MARKS = { migrations: { '001-commits': commits }, table: 'commits_migrations' };
/** The schema for all sources of a database, with the table of marks and the coordination tables. */
export const COMMON_SCHEMA = 'content_sync';
/** Deletes the marks of closed connections; an open one is never idle for a day. */
export const FORGET_OLD_MARKS = `DELETE FROM ${COMMON_SCHEMA}.commits WHERE changed_at < now() - interval '1 day'`;

/** How long a transaction is retried while the server cannot be reached. */
const RETRY_FOR_MS = 60_000;
/** How often a transaction is run again after a conflict with another session. */
const MAX_REPLAYS = 5;
const FIRST_PAUSE_MS = 20;
const MAX_PAUSE_MS = 1_000;
/** No page takes this long: a longer statement hangs. */
const STATEMENT_TIMEOUT_MS = 60_000;
/** Longer than the server takes to notice that a client with a lock has died. */
const LOCK_TIMEOUT_MS = 10_000;
/** The server ends a transaction that is idle for this long, so that a frozen process does not keep its locks. */
const IDLE_TIMEOUT_MS = 10_000;
/** How long a response may take on the network. */
const NETWORK_TIMEOUT_MS = 10_000;

export interface TransactOptions {
  /** How long to retry while the server cannot be reached; a minute if absent. 0 for one attempt. */
  retryForMs?: number;
  /** How long to retry while other sessions hold a lock; only a few times if absent. */
  lockedForMs?: number;
  /** How long to look for the mark of a transaction whose COMMIT got no response; a minute if absent. */
  decideMs?: number;
  /** True if the work may be committed twice: then the transaction writes no mark. */
  mayRepeat?: boolean;
  statementMs?: number;
  lockMs?: number;
  /** If given, the transaction is committed only while this process holds the lease. */
  lease?: LeaseProof;
}

/** One schema of a database, such as that of a source, and how to reach it. */
export interface PostgresSchema {
  readonly pool: Pool;
  readonly schema: string;
  /** For messages. */
  readonly shown: string;
  readonly clock: Clock;
  /** Spreads retries of several processes; 0 to 1. */
  readonly random: () => number;
  /** The last committed transaction of each connection of the pool. */
  readonly lastMarks: Map<PoolClient, CommitMark>;
}

/**
 * Runs `work` in one transaction, with the schema as search path. Runs all of it again after a conflict, or after a lost
 * connection unless the transaction was committed, so `work` must keep no state. Throws `SyncError`.
 */
export async function transact<T>(
  database: PostgresSchema,
  work: (session: Session) => Promise<T>,
  options: TransactOptions = {},
): Promise<T> {
  return retrying(database, options, () =>
    onClient(database, (client) => runOnClient(client, database, work, options)),
  );
}

/** Runs one statement without a transaction, with the same retries: it may run twice. Throws `SyncError`. */
export function execute(database: PostgresSchema, options: TransactOptions = {}): ExecuteSql {
  return (text, values) =>
    retrying(database, options, () =>
      // `pool.query` would close the connection after any error.
      onClient(database, (client) =>
        client.query(toQuery(text, values, (options.statementMs ?? STATEMENT_TIMEOUT_MS) + NETWORK_TIMEOUT_MS)),
      ),
    );
}

/** Runs one statement with the settings of a transaction, such as the time zone UTC; it may run twice. */
export function executeInUtc(database: PostgresSchema): ExecuteSql {
  return (text, values) => transact(database, (session) => session.execute(text, values), { mayRepeat: true });
}

/** Runs work again after errors that pass (`remedyOf`); it may run twice. Throws `SyncError`. */
export async function retrying<T>(
  { clock, random, shown }: PostgresSchema,
  { retryForMs = RETRY_FOR_MS, lockedForMs }: TransactOptions,
  work: () => Promise<T>,
): Promise<T> {
  const startedAt = clock.monotonic();
  let replays = 0;
  for (let failures = 0; ; failures += 1) {
    try {
      return await work();
    } catch (error) {
      const remedy = remedyOf(error);
      const elapsedMs = clock.monotonic() - startedAt;
      const mayWaitForLock = lockedForMs !== undefined && elapsedMs < lockedForMs && isLocked(error);
      if (remedy === 'replay') replays += 1;
      const isExhausted = elapsedMs >= retryForMs || replays > MAX_REPLAYS;
      if (remedy === 'none' || (isExhausted && !mayWaitForLock)) throw databaseError(error, shown);
    }
    const pause = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failures);
    await clock.sleep(pause * (0.5 + random() / 2));
  }
}

/** The SQLSTATE of an error of the server, or of the one that a `SyncError` has as its cause. */
export function causeCode(error: unknown): string {
  return errorCode(error instanceof SyncError ? error.cause : error);
}

/** True if another session held a lock, or a deadlock was broken. */
export function isLocked(error: unknown): boolean {
  return ['55P03', '40P01'].includes(causeCode(error));
}

/** Runs work on a connection of the pool. A connection that cannot be rolled back is not used again. */
async function onClient<T>({ pool }: PostgresSchema, work: (client: PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  let failure: unknown = null;
  try {
    return await work(client);
  } catch (error) {
    failure = error;
    throw error;
  } finally {
    client.release(failure !== null && !(await isRolledBack(client, failure)));
  }
}

/** Begins a transaction, runs the work, and commits. */
async function runOnClient<T>(
  client: PoolClient,
  database: PostgresSchema,
  work: (session: Session) => Promise<T>,
  options: TransactOptions,
): Promise<T> {
  const timeoutMs = (options.statementMs ?? STATEMENT_TIMEOUT_MS) + NETWORK_TIMEOUT_MS;
  const mark = options.mayRepeat === true ? null : newMark(client, database);
  // The row of the lease may be locked until another transaction ends.
  const beginMs = options.lease === undefined ? NETWORK_TIMEOUT_MS : timeoutMs;
  await createSession(client, beginMs).runAll(beginSteps(database, mark, options));
  const result = await work(createSession(client, timeoutMs));
  await commit(client, database, mark, options, timeoutMs);
  if (mark !== null) database.lastMarks.set(client, mark);
  return result;
}

/** Commits; throws unless the transaction is committed. `mark` is null if the work may be committed twice. */
async function commit(
  client: PoolClient,
  database: PostgresSchema,
  mark: CommitMark | null,
  options: TransactOptions,
  timeoutMs: number,
): Promise<void> {
  try {
    await client.query(toQuery('COMMIT', undefined, timeoutMs));
  } catch (error) {
    // COMMIT was sent, and no response came.
    if (remedyOf(error) !== 'server' || mark === null) throw error;
    if (!(await isCommitted(database, mark, options))) throw error;
  }
  options.lease?.committed();
}

/**
 * Finds out on another connection whether a transaction was committed. If the mark is not there, it writes another one in
 * its place: that waits for a commit in progress, and a transaction that the server receives late can no longer commit.
 */
async function isCommitted(
  database: PostgresSchema,
  { connection, mark }: CommitMark,
  { decideMs = RETRY_FOR_MS, lease }: TransactOptions,
): Promise<boolean> {
  try {
    const run = execute(database, { retryForMs: decideMs });
    const { rows } = await run<{ mark: string }>(RESOLVE_MARK, [connection, randomUUID(), mark]);
    return rows[0]?.mark === mark;
  } catch (error) {
    // Still unknown: the lease counts it as committed, so the next transaction detects if it was not.
    lease?.committed();
    throw error;
  }
}

/** Replaces the mark of a connection ($1) unless it is the one in question ($3), and returns the mark that is there then. */
const RESOLVE_MARK = `INSERT INTO ${COMMON_SCHEMA}.commits AS last (connection, mark) VALUES ($1, $2)
  ON CONFLICT (connection) DO UPDATE SET mark = CASE WHEN last.mark = $3 THEN last.mark ELSE excluded.mark END
  RETURNING mark`;

const SETTINGS = `SELECT ${settingsFrom(1)}`;

/** The steps that begin a transaction: its settings, its mark and its lease. */
function beginSteps({ schema }: PostgresSchema, mark: CommitMark | null, options: TransactOptions): Step[] {
  const { statementMs = STATEMENT_TIMEOUT_MS, lockMs = LOCK_TIMEOUT_MS } = options;
  const settings = [escapeIdentifier(schema), statementMs, lockMs, IDLE_TIMEOUT_MS];
  const settingsStep: Step =
    mark === null
      ? { text: SETTINGS, values: settings }
      : {
          text: WRITE_MARK,
          values: [mark.connection, mark.mark, mark.last, ...settings],
          errorIfNoRow: markOverwritten,
        };
  const steps = [{ text: 'BEGIN' }, settingsStep];
  return options.lease === undefined ? steps : [...steps, leaseStep(options.lease)];
}

/**
 * Locks the row of the lease until the transaction ends, so that no other process acquires the resource meanwhile. Fails
 * with `lease_lost` if one has, or if an earlier state of the database was restored, and with `warehouse_newer` if a newer
 * version has migrated the tables.
 */
function leaseStep({ name, token, fence, expiresAt, commits }: LeaseProof): Step {
  return {
    text: RENEW_LEASE,
    values: [expiresAt, name, token, fence, commits()],
    errorIfNoRow: () => leaseLost(name),
    errorOfRow: ({ last }) => newerMigrationError(last),
  };
}

/** Never moves the end of the lease back: several transactions may use one proof while the lease is renewed. */
const RENEW_LEASE = `UPDATE "_sync_leases" SET "expires_at" = greatest("expires_at", $1::timestamptz), "commits" = "commits" + 1
  WHERE "name" = $2 AND "token" = $3 AND "fence" = $4 AND "commits" >= $5 RETURNING ${LAST_APPLIED} AS "last"`;

/** Rolls back. Returns true if the connection can be used again. */
async function isRolledBack(client: PoolClient, failure: unknown): Promise<boolean> {
  if (remedyOf(failure) === 'server') return false;
  return client.query(toQuery('ROLLBACK', undefined, NETWORK_TIMEOUT_MS)).then(
    () => true,
    () => false,
  );
}

/** The present time in epoch milliseconds; not the start of the statement, which may have waited for a lock. */
export const NOW_MS = '(extract(epoch FROM clock_timestamp()) * 1000)::float8';

/** The time of the database's clock, which all machines share. */
export async function databaseNow(database: PostgresSchema): Promise<number> {
  return onlyRow(await execute(database)<{ now: number }>(`SELECT ${NOW_MS} AS now`)).now;
}

/**
 * The settings, which each transaction makes because a pooler may give it another connection. Commits must survive a crash
 * of the server, so `synchronous_commit` is at least `on`; `remote_apply`, which waits for replicas, stays. Names of types
 * are compared as Postgres prints them, so it must not quote all of them.
 */
function settingsFrom(first: number): string {
  return `set_config('search_path', $${first}, true), set_config('timezone', 'UTC', true),
  set_config('quote_all_identifiers', 'off', true),
  set_config('synchronous_commit', CASE current_setting('synchronous_commit')
    WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true), set_config('statement_timeout', $${first + 1}, true),
  set_config('lock_timeout', $${first + 2}, true), set_config('idle_in_transaction_session_timeout', $${first + 3}, true)`;
}

/**
 * Changes no row if the last mark of the connection was replaced: another session has concluded that its transaction was
 * not committed. It waits for no other lock, so the settings can be made by the same statement.
 */
const WRITE_MARK = `INSERT INTO ${COMMON_SCHEMA}.commits AS last (connection, mark) VALUES ($1, $2)
  ON CONFLICT (connection) DO UPDATE SET mark = excluded.mark, changed_at = now() WHERE last.mark = $3
  RETURNING ${settingsFrom(4)}`;

/** The mark of one attempt at a transaction. */
interface CommitMark {
  /** The key of the row in `commits`; each connection has its own, so that no two transactions wait for each other. */
  connection: string;
  mark: string;
  /** The mark of the transaction before on this connection; null for its first one. */
  last: string | null;
}

function newMark(client: PoolClient, { lastMarks }: PostgresSchema): CommitMark {
  const last = lastMarks.get(client);
  // If this transaction fails, the state of the mark is unknown: the next one begins with a new row.
  lastMarks.delete(client);
  return { connection: last?.connection ?? randomUUID(), mark: randomUUID(), last: last?.mark ?? null };
}

/** Its code makes `retrying` run the transaction again. */
function markOverwritten(): Error {
  return Object.assign(new Error('another session has concluded that this transaction was not committed'), {
    code: SERIALIZATION_FAILURE,
  });
}

const SERIALIZATION_FAILURE = '40001';
