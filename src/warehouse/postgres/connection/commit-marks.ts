import { randomUUID } from 'node:crypto';
import type { PoolClient } from 'pg';
import * as commits from '../../../../migrations/commits/001-commits.ts';
import type { Step } from './batch.ts';
import type { ExecuteSql } from '../../database.ts';
import { errorCode } from './errors.ts';

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
 * Fails where the mark is not the one that this connection has left last: somebody has asked for it, and was told that
 * what is to leave this one now was not committed. It waits for no lock but that one, so the settings go with it.
 */
const LEAVE = `INSERT INTO ${COMMON_SCHEMA}.commits AS last (connection, mark) VALUES ($1, $2)
  ON CONFLICT (connection) DO UPDATE SET mark = CASE WHEN last.mark = $3 THEN excluded.mark END, changed_at = now()
  RETURNING ${settingsFrom(4)}`;
/** With the first mark of a connection comes who has answered. */
const LEAVE_FIRST = `${LEAVE}, pg_backend_pid() AS "answeredBy"`;
/**
 * Written, not only read: so it waits for a transaction that is still being committed, and one that has not even begun
 * is never committed afterwards. What has followed a transaction shows that it was committed itself.
 */
const ASK = `INSERT INTO ${COMMON_SCHEMA}.commits AS last (connection, mark) VALUES ($1, $2)
  ON CONFLICT (connection) DO UPDATE SET mark = CASE WHEN last.mark = ANY($3::uuid[]) THEN last.mark ELSE excluded.mark END
  RETURNING mark`;

/** One attempt at a transaction. */
export interface CommitMark {
  connection: string;
  mark: string;
  /** What the connection's transaction before has left; null for its first one. */
  last: string | null;
  /** Of the transaction that was sent behind this one before it was answered; null for none. */
  next: CommitMark | null;
  /** To be called with the number of the server's process that has answered. */
  answered: (by: unknown) => void;
}

const lastMarks = new WeakMap<PoolClient, Pick<CommitMark, 'connection' | 'mark'>>();
/** Connections whose other end is the server itself. */
const straight = new WeakSet<PoolClient>();

/** A connection has one transaction at a time, so that no two wait for each other's mark. */
export function newMark(client: PoolClient): CommitMark {
  const last = lastMarks.get(client);
  const mark = randomUUID();
  // One whose transaction failed begins anew: nobody knows what became of its mark.
  lastMarks.delete(client);
  const answered = (by: unknown): void => {
    if ('processID' in client && client.processID === by) straight.add(client);
  };
  return { connection: last?.connection ?? randomUUID(), mark, last: last?.mark ?? null, next: null, answered };
}

/**
 * The mark of a transaction that is sent behind the one of `before`, which has no answer yet. It is only left where that
 * one was: so it must not be the connection's first, without which there is no mark to compare with.
 */
export function markBehind(before: CommitMark): CommitMark {
  if (before.last === null) throw new Error('nothing may follow the first transaction of a connection unanswered');
  const behind: CommitMark = { ...before, mark: randomUUID(), last: before.mark, next: null };
  before.next = behind;
  return behind;
}

/**
 * True if a transaction may be sent behind another one that is still to be answered. Not where a pooler answers: one that
 * lends its connections by the transaction need not look for what stands behind the end of one.
 */
export function mayBeFollowed(client: PoolClient, { last, next }: CommitMark): boolean {
  return straight.has(client) && last !== null && next === null;
}

/** To be called when it is committed. */
export function keepMark(client: PoolClient, { connection, mark, next }: CommitMark): void {
  if (next === null) lastMarks.set(client, { connection, mark });
}

/** To be run within the transaction; `settings` are the values of `settingsFrom`. */
export function leaveMark({ connection, mark, last, answered }: CommitMark, settings: readonly unknown[]): Step {
  const values = [connection, mark, last, ...settings];
  if (last !== null) return { text: LEAVE, values, explain: overtaken };
  const refuse = (row: Readonly<Record<string, unknown>>): null => {
    answered(row['answeredBy']);
    return null;
  };
  return { text: LEAVE_FIRST, values, explain: overtaken, refuse };
}

/** The transaction is tried again, on a connection that has left no mark. */
function overtaken(error: Error): Error {
  return errorCode(error) === NOT_NULL
    ? Object.assign(new Error(error.message, { cause: error }), { code: REPLAYED })
    : error;
}

const NOT_NULL = '23502';
const REPLAYED = '40001';

/**
 * Asks, on another connection, whether a transaction was committed; once answered, that stays so. Of several that have
 * followed each other the first is to be asked for first: whoever asks for a later one that is not there covers up its mark.
 */
export async function isCommitted(mark: CommitMark, ask: ExecuteSql): Promise<boolean> {
  const marks = marksFrom(mark);
  const { rows } = await ask<{ mark: string }>(ASK, [mark.connection, randomUUID(), marks]);
  return marks.includes(rows[0]?.mark ?? '');
}

/** Its own, and those of what was sent behind it. */
function marksFrom(first: CommitMark): string[] {
  const marks: string[] = [];
  for (let mark: CommitMark | null = first; mark !== null; { next: mark } = mark) marks.push(mark.mark);
  return marks;
}
