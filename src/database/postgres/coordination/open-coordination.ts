// State that all processes on one server share: budgets of rate limits, and which process leads a source.
import { randomUUID } from 'node:crypto';
import { type QueryResult, types } from 'pg';
import * as firstTables from '../../../../migrations/coordination/001-coordination.ts';
import * as tokenTables from '../../../../migrations/coordination/002-tokens.ts';
import * as controlTables from '../../../../migrations/coordination/003-controls.ts';
import type { Clock } from '../../../model/clock.ts';
import type { Coordination, StoredBudget } from '../../coordination.ts';
import type { SharedStatements } from '../../database.ts';
import { openDatabase } from '../connection/open-database.ts';
import { borrowDatabase } from '../connection/pools.ts';
import { onlyRow, toQuery } from '../connection/session.ts';
import { COMMON_SCHEMA, type PostgresSchema, execute, NOW_MS, retrying } from '../connection/transact.ts';
import type { PostgresAddress } from '../address.ts';

const COORDINATION_TABLES = {
  migrations: { '001-hub': firstTables, '002-tokens': tokenTables, '003-controls': controlTables },
  table: 'hub_migrations',
};

/** Opens the coordination of the database at an address. Throws `ConfigError`. */
export async function openCoordination({ connection }: PostgresAddress, clock: Clock): Promise<Coordination> {
  const url = new URL(connection);
  // A separate pool: a request must not wait until pages are written.
  url.searchParams.set('application_name', 'content-sync-hub');
  const opened = await openDatabase({ connection: url.href, schema: COMMON_SCHEMA }, clock, COORDINATION_TABLES);
  const run = execute(opened.database);
  return {
    readBudget: async (name) => {
      const row = onlyRow(await run<Omit<StoredBudget, 'version'> & { version: number | null }>(READ_BUDGET, [name]));
      return { ...row, version: row.version ?? 0 };
    },
    swapBudget: async (name, version, state) => {
      // The random id identifies a change that had to be sent twice.
      const change = [name, version, state, randomUUID()];
      const row = onlyRow(await run<StoredBudget & { isStored: boolean }>(SWAP_BUDGET, change));
      // The server does not send the new state back.
      return { state: row.state ?? state, version: row.version, now: row.now, isStored: row.isStored };
    },
    lead: async (sources, owner, forMs) =>
      (await run<{ source: string }>(LEAD, [sources, owner, forMs])).rows.map(({ source }) => source),
    resign: async (owner) => void (await run(`DELETE FROM ${COMMON_SCHEMA}.leads WHERE owner = $1`, [owner])),
    close: () => opened.close(),
  };
}

/** Returns a row for the time even if no budget is stored. */
const READ_BUDGET = `SELECT state, version, ${NOW_MS} AS now FROM (SELECT $1::text AS name) asked
  LEFT JOIN ${COMMON_SCHEMA}.budgets USING (name)`;

/**
 * It also writes an unchanged row: only then a statement sees the change that it waited for. Versions follow the clock,
 * so that a version which a crash of the server lost is not used again. Commits do not wait for the disk.
 */
const SWAP_BUDGET = `INSERT INTO ${COMMON_SCHEMA}.budgets AS stored (name, state, version, change, changed_at)
  VALUES ($1, $3, greatest($2::bigint + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), $4, now())
  ON CONFLICT (name) DO UPDATE SET
    state = ${replacedIfExpected('state')},
    version = ${replacedIfExpected('version')},
    change = ${replacedIfExpected('change')},
    changed_at = ${replacedIfExpected('changed_at')}
  RETURNING version, change = $4 AS "isStored", CASE WHEN change = $4 THEN NULL ELSE state END AS state, ${NOW_MS} AS now,
    set_config('synchronous_commit', 'off', true) AS durable`;

function replacedIfExpected(column: string): string {
  return `CASE WHEN stored.version = $2 THEN excluded.${column} ELSE stored.${column} END`;
}

/** Sources are sorted, so that two processes do not deadlock. */
const LEAD = `INSERT INTO ${COMMON_SCHEMA}.leads AS led (source, owner, until)
  SELECT DISTINCT source, $2, now() + $3 * interval '1 millisecond' FROM pg_catalog.unnest($1::text[]) AS asked (source)
  ORDER BY source
  ON CONFLICT (source) DO UPDATE SET owner = excluded.owner, until = excluded.until
    WHERE led.owner = excluded.owner OR led.until <= now()
  RETURNING source`;

/** Statements of the work queue are short, except for those that create its tables. */
const QUERY_TIMEOUT_MS = 60_000;

/** Statements on tables that all sources share: those of the work queue. Opens no connection. */
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
