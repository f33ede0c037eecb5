import { randomUUID } from 'node:crypto';
import type { PoolClient } from 'pg';
import * as commits from '../../../../migrations/commits/001-commits.ts';
import type { Step } from './batch.ts';
import { oncePer } from '../../once-per.ts';
import type { ExecuteSql } from '../../database.ts';

/**
 * A transaction leaves a mark of its connection's, so that a session that got no answer to its COMMIT can ask. A number of the
 * server's would not do: after a crash it gives those anew that it had not written down.
 */
export const COMMIT_MARKS = { migrations: { '001-commits': commits }, table: 'commits_migrations' };
/** For all sources of a database; beside the tables of coordination. */
export const COMMON_SCHEMA = 'content_sync';
/** Of connections that are no more: none rests for so long. */
export const FORGET_OLD_MARKS = `DELETE FROM ${COMMON_SCHEMA}.commits WHERE changed_at < now() - interval '1 day'`;

const LEAVE = `INSERT INTO ${COMMON_SCHEMA}.commits (connection, mark) VALUES ($1, $2)
  ON CONFLICT (connection) DO UPDATE SET mark = excluded.mark, changed_at = now()`;
/** Written, not only read: so it waits for a transaction that is still being committed. */
const ASK = `INSERT INTO ${COMMON_SCHEMA}.commits AS last (connection, mark) VALUES ($1, $2)
  ON CONFLICT (connection) DO UPDATE SET mark = last.mark RETURNING mark`;

/** One attempt at a transaction. */
export interface CommitMark {
  connection: string;
  mark: string;
}

const connectionOf = oncePer<PoolClient, string>(() => randomUUID());

/** A connection has one transaction at a time, so that no two wait for each other's mark. */
export function newMark(client: PoolClient): CommitMark {
  return { connection: connectionOf(client), mark: randomUUID() };
}

/** To be run within the transaction. */
export function leaveMark({ connection, mark }: CommitMark): Step {
  return { text: LEAVE, values: [connection, mark] };
}

/** Asks, on another connection, whether a transaction was committed; once answered, that stays so. */
export async function isCommitted({ connection, mark }: CommitMark, ask: ExecuteSql): Promise<boolean> {
  const { rows } = await ask<{ mark: string }>(ASK, [connection, randomUUID()]);
  return rows[0]?.mark === mark;
}
