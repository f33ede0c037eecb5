// Runs the statements of the work queue, in which the leader puts what is due and from which workers take it. Its tables
// belong to no source: all sources and processes on one Postgres server share them.
import { type QueryResult, types } from 'pg';
import type { Clock } from '../../../model/clock.ts';
import type { SharedStatements } from '../../database.ts';
import type { PostgresAddress } from '../address.ts';
import { borrowDatabase } from '../connection/pools.ts';
import { toQuery } from '../connection/session.ts';
import { execute, type PostgresSchema, retrying } from '../connection/transact.ts';

/** Most statements are short; those that create the tables may take longer. */
const QUERY_TIMEOUT_MS = 60_000;

/** Creates the access to the tables that all sources share. Opens no connection. */
export function sharedStatements(address: PostgresAddress, clock: Clock): SharedStatements {
  const { database, release } = borrowDatabase(address, clock);
  return {
    execute: execute(database),
    run: (text, values, retryForMs) => retrying(database, { retryForMs }, () => run(database, text, values)),
    close: release,
  };
}

/** After an error the connection is not used again: it may be in the middle of a transaction. */
async function run({ pool }: PostgresSchema, text: string, values?: readonly unknown[]): Promise<{ rows: unknown[] }> {
  const client = await pool.connect();
  let hasFailed = true;
  try {
    const answer: QueryResult | QueryResult[] = await client.query({
      ...toQuery(text, values, QUERY_TIMEOUT_MS),
      types,
    });
    hasFailed = false;
    // A text of several statements has several results.
    return { rows: [answer].flat().flatMap(({ rows }): unknown[] => rows) };
  } finally {
    client.release(hasFailed);
  }
}
