import { randomUUID } from 'node:crypto';
import type { PoolClient } from 'pg';
import * as commits from '../../../../migrations/commits/001-commits.ts';
import type { Step } from './batch.ts';
import type { ExecuteSql } from '../../database.ts';

/**
 * A transaction leaves a mark of its connection's, so that a session that got no answer to it can ask. A number of the
 * server's would not do: after a crash it gives those anew that it had not written down.
 */
export const COMMIT_MARKS = { migrations: { '001-commits': commits }, table: 'commits_migrations' };
/** For all sources of a database; beside the tables of coordination. */
export const COMMON_SCHEMA = 'content_sync';
/** Of connections that are no more: none rests for so long. */
export const FORGET_OLD_MARKS = `DELETE FROM ${COMMON_SCHEMA}.commits WHERE changed_at < now() - interval '1 day'`;

/**
 * Settings of the session go with the transaction, so that a pooler may lend its connections one transaction at a time.
 * What this process takes for committed must outlive the server, because the process does: `synchronous_commit` is
 * raised if it is less; more than that, as set to wait for replicas, stays. Names of types are compared as Postgres
 * prints them, so it must not quote them all. Five values from the first parameter on.
 */
export function settingsFrom(first: number): string {
  return `set_config('search_path', $${first}, true), set_config('timezone', 'UTC', true),
  set_config('quote_all_identifiers', 'off', true),
  set_config('synchronous_commit', CASE current_setting('synchronous_commit')
    WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true), set_config('statement_timeout', $${first + 1}, true),
  set_config('lock_timeout', $${first + 2}, true), set_config('idle_in_transaction_session_timeout', $${first + 3}, true)`;
}

/**
 * Changes no row if the mark is not the one that this connection has left last: another connection has asked for it, and
 * was told that this transaction was not committed. It waits for no lock but that one, so the settings go with it.
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
export interface CommitMark {
  connection: string;
  mark: string;
  /** What the connection's transaction before has left; null for its first one. */
  last: string | null;
}

const lastMarks = new WeakMap<PoolClient, Pick<CommitMark, 'connection' | 'mark'>>();

/** A connection has one transaction at a time, so that no two wait for each other's mark. */
export function newMark(client: PoolClient): CommitMark {
  const last = lastMarks.get(client);
  const mark = randomUUID();
  // One whose transaction failed begins anew: nobody knows what became of its mark.
  lastMarks.delete(client);
  return { connection: last?.connection ?? randomUUID(), mark, last: last?.mark ?? null };
}

/** To be called when it is committed. */
export function keepMark(client: PoolClient, { connection, mark }: CommitMark): void {
  lastMarks.set(client, { connection, mark });
}

/** To be run within the transaction; `settings` are the values of `settingsFrom`. */
export function leaveMark({ connection, mark, last }: CommitMark, settings: readonly unknown[]): Step {
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
export async function isCommitted({ connection, mark }: CommitMark, ask: ExecuteSql): Promise<boolean> {
  const { rows } = await ask<{ mark: string }>(ASK, [connection, randomUUID(), mark]);
  return rows[0]?.mark === mark;
}
