import { randomUUID } from 'node:crypto';
import * as hubTables from '../../../../migrations/coordination/001-hub.ts';
import * as tokens from '../../../../migrations/coordination/002-tokens.ts';
import type { Clock } from '../../../model/clock.ts';
import type { Coordination, StoredBudget } from '../../coordination.ts';
import { connectionName, postgresPlace } from '../connection/address.ts';
import { COMMON_SCHEMA } from '../pages/commit-marks.ts';
import { NOW_MS } from '../connection/database-clock.ts';
import { claimToken, freeToken, swapToken } from './tokens.ts';
import { openDatabase } from '../connection/open-database.ts';
import type { ExecuteSql } from '../connection/session.ts';
import { execute } from '../connection/transact.ts';

const COORDINATION_TABLES = { migrations: { '001-hub': hubTables, '002-tokens': tokens }, table: 'hub_migrations' };

interface SharedCoordination {
  opened: Promise<Coordination>;
  users: number;
}

const coordinations = new Map<string, SharedCoordination>();

/** Opens the hub of the database that an address names; its sources share it. Throws `ConfigError`. */
export async function openPostgresCoordination(rest: string, clock: Clock): Promise<Coordination> {
  const name = connectionName(postgresPlace(rest).connection);
  const shared = coordinations.get(name) ?? { opened: openOwn(rest, clock), users: 0 };
  coordinations.set(name, shared);
  shared.users += 1;
  let isBack = false;
  const close = async (): Promise<void> => {
    if (isBack) return;
    isBack = true;
    shared.users -= 1;
    if (shared.users > 0) return;
    if (coordinations.get(name) === shared) coordinations.delete(name);
    await (await shared.opened).close();
  };
  try {
    return { ...(await shared.opened), close };
  } catch (error) {
    // Whoever asks next shall try anew.
    if (coordinations.get(name) === shared) coordinations.delete(name);
    throw error;
  }
}

async function openOwn(rest: string, clock: Clock): Promise<Coordination> {
  const url = new URL(`postgres:${rest}`);
  url.searchParams.set('schema', COMMON_SCHEMA);
  // A pool of its own: a request that may be sent must not wait until pages are written.
  url.searchParams.set('application_name', 'content-sync-hub');
  const opened = await openDatabase(url.href.slice('postgres:'.length), clock, COORDINATION_TABLES);
  const ask = execute(opened.database);
  return {
    readBudget: (name) => readBudget(ask, name),
    swapBudget: (name, version, state) => swapBudget(ask, name, version, state),
    lead: async (sources, owner, forMs) =>
      (await ask<{ source: string }>(LEAD, [sources, owner, forMs])).rows.map(({ source }) => source),
    resign: async (owner) => void (await ask(`DELETE FROM ${COMMON_SCHEMA}.leads WHERE owner = $1`, [owner])),
    claimToken: (name, version, claim) => claimToken(ask, name, version, claim),
    swapToken: (name, version, token) => swapToken(ask, name, version, token),
    freeToken: (name, owner) => freeToken(ask, name, owner),
    close: () => opened.close(),
  };
}

/** A row also where nothing is stored yet, for the time. */
const READ = `SELECT state, version, ${NOW_MS} AS now FROM (SELECT $1::text AS name) asked
  LEFT JOIN ${COMMON_SCHEMA}.budgets USING (name)`;

async function readBudget(ask: ExecuteSql, name: string): Promise<StoredBudget> {
  const [row] = (await ask<{ state: string | null; version: number | null; now: number }>(READ, [name])).rows;
  if (row === undefined) throw new Error('a question without an answer');
  return { state: row.state, version: row.version ?? 0, now: row.now };
}

/**
 * The row is written also where it stays as it is: only so does a statement that waited for another one see what that
 * one left. Versions follow the clock, so that one that was lost in a crash of the server does not come again for
 * another state. Nobody waits for the disk: a crash takes away the last half second.
 */
const SWAP = `INSERT INTO ${COMMON_SCHEMA}.budgets AS stored (name, state, version, change, changed_at)
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

interface SwappedRow {
  version: number;
  isStored: boolean;
  /** Null where it is the one that was sent. */
  state: string | null;
  now: number;
}

async function swapBudget(
  ask: ExecuteSql,
  name: string,
  version: number,
  state: string,
): Promise<StoredBudget & { isStored: boolean }> {
  // By its own number a change is known again, also where it had to be sent twice.
  const [row] = (await ask<SwappedRow & Record<string, unknown>>(SWAP, [name, version, state, randomUUID()])).rows;
  if (row === undefined) throw new Error('a change without an answer');
  return { state: row.state ?? state, version: row.version, now: row.now, isStored: row.isStored };
}

/** Sources in order, so that two that ask at once do not wait for each other in a circle. */
const LEAD = `INSERT INTO ${COMMON_SCHEMA}.leads AS led (source, owner, until)
  SELECT DISTINCT source, $2, now() + $3 * interval '1 millisecond' FROM unnest($1::text[]) AS asked (source)
  ORDER BY source
  ON CONFLICT (source) DO UPDATE SET owner = excluded.owner, until = excluded.until
    WHERE led.owner = excluded.owner OR led.until <= now()
  RETURNING source`;
