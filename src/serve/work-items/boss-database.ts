import { types, type QueryResult } from 'pg';
import type { Db } from 'pg-boss';
import { queryOf } from '../../warehouse/postgres/connection/session.ts';
import { retryWhileLocked, type Database } from '../../warehouse/postgres/connection/transact.ts';

/** The engine's own statements are short, but for those that build its tables. */
const ANSWER_MS = 60_000;
/** Long enough for a restart of the server; the engine asks again by itself. */
const PATIENCE_MS = 10_000;

/** The engine's way to the database: over the pool that all sources share. */
export interface BossDatabase {
  /** While the server is away, a statement waits for it and may then run twice. */
  patient: Db;
  /** A single attempt, for what must not be done twice. */
  single: Db;
}

export function bossDatabase(database: Database): BossDatabase {
  const within = (patienceMs: number): Db => ({
    executeSql: (text, values) => retryWhileLocked(database, patienceMs, () => run(database, text, values)),
  });
  return { patient: within(PATIENCE_MS), single: within(0) };
}

/** Between two statements the server may end the connection: the next statement tells. */
const nothing = (): void => undefined;

/** A connection on which something went wrong is not used again: it may be in the middle of a transaction of several. */
async function run({ pool }: Database, text: string, values?: unknown[]): Promise<{ rows: unknown[] }> {
  const client = await pool.connect();
  client.on('error', nothing);
  let isWell = false;
  try {
    // The engine reads values as `pg` does by itself.
    const answer = await client.query({ ...queryOf(text, values, ANSWER_MS), types });
    isWell = true;
    return { rows: rowsOf(answer) };
  } finally {
    client.off('error', nothing);
    client.release(!isWell);
  }
}

/** Several statements in one text have several results. */
function rowsOf(answer: QueryResult | QueryResult[]): unknown[] {
  return Array.isArray(answer) ? answer.flatMap(({ rows }): unknown[] => rows) : answer.rows;
}
