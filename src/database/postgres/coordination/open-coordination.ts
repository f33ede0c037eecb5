import { randomUUID } from 'node:crypto';
import { type QueryResult, types } from 'pg';
import * as firstTables from '../../../../migrations/coordination/001-coordination.ts';
import * as tokenTables from '../../../../migrations/coordination/002-tokens.ts';
import * as controlTables from '../../../../migrations/coordination/003-controls.ts';
import type { Clock } from '../../../model/clock.ts';
import type {
  ControlPost,
  Coordination,
  StoredBudget,
  StoredControl,
  StoredControlAnswer,
} from '../../coordination.ts';
import type { ExecuteSql, SharedStatements } from '../../database.ts';
import type { PostgresAddress } from '../connection/address.ts';
import { openDatabase } from '../connection/open-database.ts';
import { borrowDatabase } from '../connection/pools.ts';
import { onlyRow, queryOf } from '../connection/session.ts';
import { COMMON_SCHEMA, type Database, execute, NOW_MS, retrying } from '../connection/transact.ts';

const COORDINATION_TABLES = {
  migrations: { '001-hub': firstTables, '002-tokens': tokenTables, '003-controls': controlTables },
  table: 'hub_migrations',
};

/** Opens the coordination of the database at an address. Throws `ConfigError`. */
export async function openCoordination({ connection }: PostgresAddress, clock: Clock): Promise<Coordination> {
  const url = new URL(connection);
  // A pool of its own: a request that may be sent must not wait until pages are written.
  url.searchParams.set('application_name', 'content-sync-hub');
  const address = { connection: url.href, schema: COMMON_SCHEMA };
  const opened = await openDatabase(address, clock, COORDINATION_TABLES);
  const ask = execute(opened.database);
  return {
    readBudget: async (name) => {
      const row = onlyRow(await ask<Omit<StoredBudget, 'version'> & { version: number | null }>(READ_BUDGET, [name]));
      return { ...row, version: row.version ?? 0 };
    },
    swapBudget: async (name, version, state) => {
      // By its own number a change is known again, even if it had to be sent twice.
      const change = [name, version, state, randomUUID()];
      const row = onlyRow(await ask<StoredBudget & { isStored: boolean }>(SWAP_BUDGET, change));
      // No state is sent back if it is the one that was sent.
      return { state: row.state ?? state, version: row.version, now: row.now, isStored: row.isStored };
    },
    lead: async (sources, owner, forMs) =>
      (await ask<{ source: string }>(LEAD, [sources, owner, forMs])).rows.map(({ source }) => source),
    resign: async (owner) => void (await ask(`DELETE FROM ${COMMON_SCHEMA}.leads WHERE owner = $1`, [owner])),
    ...controlPost(ask),
    close: () => opened.close(),
  };
}

/** Returns a row even if nothing is stored yet, for the time. */
const READ_BUDGET = `SELECT state, version, ${NOW_MS} AS now FROM (SELECT $1::text AS name) asked
  LEFT JOIN ${COMMON_SCHEMA}.budgets USING (name)`;

/**
 * The row is written even if it stays as it is: only so does a statement that waited for another one see what that
 * one left. Versions follow the clock, so that one that was lost in a crash of the server does not come again for
 * another state. Nobody waits for the disk: a crash takes away the last half second.
 */
const SWAP_BUDGET = `INSERT INTO ${COMMON_SCHEMA}.budgets AS stored (name, state, version, change, changed_at)
  VALUES ($1, $3, greatest($2::bigint + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), $4, now())
  ON CONFLICT (name) DO UPDATE SET
    state = ${keptUnlessExpected('state')},
    version = ${keptUnlessExpected('version')},
    change = ${keptUnlessExpected('change')},
    changed_at = ${keptUnlessExpected('changed_at')}
  RETURNING version, change = $4 AS "isStored", CASE WHEN change = $4 THEN NULL ELSE state END AS state, ${NOW_MS} AS now,
    set_config('synchronous_commit', 'off', true) AS durable`;

function keptUnlessExpected(column: string): string {
  return `CASE WHEN stored.version = $2 THEN excluded.${column} ELSE stored.${column} END`;
}

/** Sources in order, so that two that ask at once do not wait for each other in a circle. */
const LEAD = `INSERT INTO ${COMMON_SCHEMA}.leads AS led (source, owner, until)
  SELECT DISTINCT source, $2, now() + $3 * interval '1 millisecond' FROM pg_catalog.unnest($1::text[]) AS asked (source)
  ORDER BY source
  ON CONFLICT (source) DO UPDATE SET owner = excluded.owner, until = excluded.until
    WHERE led.owner = excluded.owner OR led.until <= now()
  RETURNING source`;

/** Statements of a queue's engine are short, but for those that build its tables. */
const ANSWER_MS = 60_000;

export function sharedStatements(address: PostgresAddress, clock: Clock): SharedStatements {
  const { database, release } = borrowDatabase(address, clock);
  return {
    execute: execute(database),
    run: (text, values, retryForMs) => retrying(database, { retryForMs }, () => run(database, text, values)),
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

const TABLE = `${COMMON_SCHEMA}.controls`;

/** What processes are told to do by way of the database. */
function controlPost(ask: ExecuteSql): ControlPost {
  return {
    isLed: async (source) => (await ask(LED, [source])).rows.length > 0,
    putControl: async ({ id, source, request, by }) => {
      await ask(FORGET);
      await ask(PUT, [id, source, request, by]);
    },
    recentControls: async (sources) => (await ask<StoredControl>(RECENT, [sources])).rows,
    takeControl: async (id, owner) => (await ask(TAKE, [id, owner])).rowCount === 1,
    tellControl: async (id, { answer, report, isEnded }) => void (await ask(TELL, [id, answer, report, isEnded])),
    readControl: async (id) => (await ask<StoredControlAnswer>(READ, [id])).rows[0] ?? null,
  };
}

const LED = `SELECT 1 AS led FROM ${COMMON_SCHEMA}.leads WHERE source = $1 AND until > now()`;
const FORGET = `DELETE FROM ${TABLE} WHERE asked_at < now() - interval '1 day'`;
/** Sent twice if the connection is lost before the answer. */
const PUT = `INSERT INTO ${TABLE} (id, source, request, asked_by, asked_at) VALUES ($1::uuid, $2, $3::jsonb, $4, now())
  ON CONFLICT (id) DO NOTHING`;
const RECENT = `SELECT id::text AS id, source, request::text AS request, asked_by AS by FROM ${TABLE}
  WHERE asked_at > now() - interval '1 minute' AND source = ANY($1) ORDER BY asked_at`;
const TAKE = `UPDATE ${TABLE} SET taken_by = $2, heard_at = now()
  WHERE id = $1::uuid AND (taken_by IS NULL OR taken_by = $2)`;
const TELL = `UPDATE ${TABLE} SET heard_at = now(), answer = coalesce($2::jsonb, answer),
    report = coalesce($3::jsonb, report), ended_at = CASE WHEN $4::boolean THEN now() ELSE ended_at END
  WHERE id = $1::uuid`;
const READ = `SELECT answer::text AS answer, report::text AS report, ended_at IS NOT NULL AS "isEnded",
    coalesce(heard_at > now() - interval '30 s', false) AS "isHeard"
  FROM ${TABLE} WHERE id = $1::uuid`;
