// State that all processes on one Postgres server share: the budget of each rate limit, so that together they stay within
// it, and which process leads a source, so that only one runs its schedule.
import { randomUUID } from 'node:crypto';
import * as firstTables from '../../../../migrations/coordination/001-coordination.ts';
import * as tokenTables from '../../../../migrations/coordination/002-tokens.ts';
import * as controlTables from '../../../../migrations/coordination/003-controls.ts';
import type { Clock } from '../../../model/clock.ts';
import type { Coordination, StoredBudget } from '../../coordination.ts';
import { openDatabase } from '../connection/open-database.ts';
import { onlyRow } from '../connection/session.ts';
import { COMMON_SCHEMA, execute, NOW_MS } from '../connection/transact.ts';
import type { PostgresAddress } from '../address.ts';

const COORDINATION_TABLES = {
  migrations: { '001-hub': firstTables, '002-tokens': tokenTables, '003-controls': controlTables },
  table: 'hub_migrations',
};

/** Opens the coordination of the database at an address. Throws `ConfigError`. */
export async function openCoordination({ connection }: PostgresAddress, clock: Clock): Promise<Coordination> {
  const url = new URL(connection);
  // Another name gives a pool of its own, so that a request does not wait until pages are written.
  url.searchParams.set('application_name', 'content-sync-hub');
  const opened = await openDatabase({ connection: url.href, schema: COMMON_SCHEMA }, clock, COORDINATION_TABLES);
  const run = execute(opened.database);
  return {
    readBudget: async (name) => {
      const row = onlyRow(await run<Omit<StoredBudget, 'version'> & { version: number | null }>(READ_BUDGET, [name]));
      return { ...row, version: row.version ?? 0 };
    },
    swapBudget: async (name, version, state) => {
      // A lost connection makes `run` send the statement again: the random id shows that the change was stored already.
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

/** Always returns a row, with the time of the server, even if no budget is stored. */
const READ_BUDGET = `SELECT state, version, ${NOW_MS} AS now FROM (SELECT $1::text AS name) asked
  LEFT JOIN ${COMMON_SCHEMA}.budgets USING (name)`;

/**
 * Writes the row even if its version is another one: only then does the statement see a change for which it has waited.
 * Versions follow the clock, so a version that a crash of the server has lost is not used again. Commits do not wait for
 * the disk.
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

/** Takes or renews leads. Sources are sorted, so that two processes do not deadlock. */
const LEAD = `INSERT INTO ${COMMON_SCHEMA}.leads AS led (source, owner, until)
  SELECT DISTINCT source, $2, now() + $3 * interval '1 millisecond' FROM pg_catalog.unnest($1::text[]) AS asked (source)
  ORDER BY source
  ON CONFLICT (source) DO UPDATE SET owner = excluded.owner, until = excluded.until
    WHERE led.owner = excluded.owner OR led.until <= now()
  RETURNING source`;
