import { escapeIdentifier, type Pool, type PoolClient } from 'pg';
import type { Clock } from '../../../model/clock.ts';
import type { ExecuteSql, SqlResult } from '../../database.ts';
import type { LeaseProof } from '../../warehouse.ts';
import { Batch, type Step } from './batch.ts';
import { isCommitted, keepMark, leaveMark, newMark, settingsFrom, type CommitMark } from './commit-marks.ts';
import { databaseError, remedyOf } from './errors.ts';
import { leaseStep } from './lease-step.ts';
import { onlyRow, queryOf, sessionOf, type Session } from './session.ts';

/** How long a transaction is tried again while the server is not there, and how often while others are in the way. */
export const RETRY_FOR_MS = 60_000;
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
export const ANSWER_MS = STATEMENT_MS + NETWORK_MS;

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
        const [, answer] = await client.query(new Batch([settings, { text, values }], ANSWER_MS)).done;
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
  const mark = options.mayRepeat === true ? null : newMark(client);
  // To hold the lease may take until another transaction is over.
  const beginMs = options.lease === undefined ? NETWORK_MS : answerMs;
  await client.query(new Batch(beginning(database, mark, options), beginMs)).done;
  const result = await work(sessionOf(client, answerMs));
  const commit = (): Promise<unknown> => client.query(queryOf('COMMIT', undefined, answerMs));
  await orDecided(database, { ...options, mark }, commit);
  if (mark !== null) keepMark(client, mark);
  return result;
}

export interface Committing extends Pick<TransactOptions, 'lease' | 'decideMs'> {
  /** Null if it does no harm when the work is done again. */
  mark: CommitMark | null;
  /** True of an error that says that there is no COMMIT any more. */
  isRefused?: (error: unknown) => boolean;
}

/** Sends what ends with a COMMIT; throws unless it is committed. */
export async function orDecided(
  database: Database,
  committing: Committing,
  send: () => Promise<unknown>,
): Promise<void> {
  const { mark, lease, isRefused } = committing;
  try {
    await send();
  } catch (error) {
    // Sent, and no answer: only the server knows.
    if (remedyOf(error) !== 'server' || mark === null || isRefused?.(error) === true) throw error;
    if (!(await decided(database, mark, committing))) throw error;
  }
  lease?.committed();
}

/** Throws if nobody answers: then the lease counts it, so that its next transaction finds out. */
async function decided(database: Database, mark: CommitMark, { decideMs, lease }: Committing): Promise<boolean> {
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
export function beginning(database: Database, mark: CommitMark | null, options: TransactOptions): Step[] {
  const values = settingsOf(database, options);
  const begun = [{ text: 'BEGIN' }, mark === null ? { text: SETTINGS, values } : leaveMark(mark, values)];
  return options.lease === undefined ? begun : [...begun, leaseStep(options.lease)];
}

/** True if a connection can be used again. */
export async function rolledBack(client: PoolClient, failure: unknown): Promise<boolean> {
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
