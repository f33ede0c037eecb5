import { types, type QueryResult } from 'pg';
import type { Clock } from '../../../model/clock.ts';
import type { SharedStatements } from '../../database.ts';
import type { PostgresAddress } from '../connection/address.ts';
import { borrowDatabase } from '../connection/pools.ts';
import { queryOf } from '../connection/session.ts';
import { execute, retryWhileLocked, type Database } from '../connection/transact.ts';

/** Statements of a queue's engine are short, but for those that build its tables. */
const ANSWER_MS = 60_000;

export function sharedStatements(address: PostgresAddress, clock: Clock): SharedStatements {
  const { database, release } = borrowDatabase(address, clock);
  return {
    execute: execute(database),
    run: (text, values, retryForMs) => retryWhileLocked(database, retryForMs, () => run(database, text, values)),
    close: release,
  };
}

/** Between two statements the server may end the connection: the next statement tells. */
const nothing = (): void => undefined;

/** A connection on which something went wrong is not used again: it may be in the middle of a transaction of several. */
async function run({ pool }: Database, text: string, values?: readonly unknown[]): Promise<{ rows: unknown[] }> {
  const client = await pool.connect();
  client.on('error', nothing);
  let isWell = false;
  try {
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
