import { createHash } from 'node:crypto';
import type { Clock } from '../../model/clock.ts';
import { ConfigError } from '../../model/errors.ts';
import { readAddress } from '../../settings/warehouse-address.ts';
import { shownAddress, type PostgresAddress } from '../postgres/connection/address.ts';
import { INBOX_TABLES, openDatabase } from '../postgres/connection/open-database.ts';
import { borrowDatabase } from '../postgres/connection/pools.ts';
import type { Session } from '../postgres/connection/session.ts';
import { execute, transact, type Database } from '../postgres/connection/transact.ts';
import { openWarehouse } from '../postgres/warehouse.ts';
import type { LeaseProof, Warehouse } from '../warehouse.ts';
import { quoted } from './copied-tables.ts';
import { readReceipt, type Receipt } from './receipt.ts';

const LONGEST_NAME = 63;

/**
 * Where a copy grows until it is whole: a schema of its own beside the one that it is for, so that nobody takes half a
 * copy for a warehouse.
 */
export interface Staging {
  readonly database: Database;
  /** The staging schema as a warehouse: its tables are made as those of any source. */
  readonly warehouse: Warehouse;
  /** The address and the schema that it becomes in the end. */
  readonly address: string;
  readonly schema: string;
  close(): Promise<void>;
}

/** Opens (and makes) the staging schema for a Postgres address. Throws `ConfigError` if that cannot be. */
export async function openStaging(address: string, clock: Clock): Promise<Staging> {
  const { connection, schema } = targetAt(address);
  const staged = { connection, schema: stagingName(schema) };
  const opened = new AsyncDisposableStack();
  try {
    const warehouse = await openWarehouse(staged, clock);
    opened.defer(() => warehouse.close());
    const deliveries = await openDatabase(staged, clock, INBOX_TABLES);
    opened.defer(() => deliveries.close());
    const { database } = deliveries;
    return { database, warehouse, address, schema, close: () => opened.disposeAsync() };
  } catch (error) {
    await opened.disposeAsync();
    throw error;
  }
}

/**
 * What an earlier copy left in the schema that an address names; null if nothing is there yet. Throws
 * `ConfigError('copy_target_used')` if a warehouse, or anything else, is there that no copy made.
 */
export async function findReceipt(address: string, clock: Clock): Promise<Receipt | null> {
  const { database, release } = borrowDatabase(targetAt(address), clock);
  try {
    const names = await relationNames(database);
    if (names.size === 0) return null;
    if (names.has('_sync_copy')) return await readReceipt(database);
    throw targetUsed(address);
  } finally {
    await release();
  }
}

/** `copiedAt` if what is there is a copy of an earlier state. */
export function targetUsed(address: string, copiedAt: string | null = null): ConfigError {
  const shown = shownAddress(targetAt(address));
  const why =
    copiedAt === null
      ? 'is not empty'
      : `holds a copy that was finished at ${copiedAt} UTC, and the SQLite warehouse has been written to since`;
  return new ConfigError('copy_target_used', `${shown} ${why}: nothing was copied there`, {
    hint: 'name a database or a schema in which nothing is yet, such as postgres://host/database?schema=blog_new',
  });
}

/** Tables, views and the like in a schema. */
async function relationNames(database: Database): Promise<Set<string>> {
  const { rows } = await execute(database, { retryForMs: 5_000 })<{ name: string }>(
    `SELECT relname AS name FROM pg_class WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)`,
    [database.schema],
  );
  return new Set(rows.map(({ name }) => name));
}

/** Copies go to Postgres alone. */
function targetAt(address: string): PostgresAddress {
  const target = readAddress(address);
  if (target?.kind === 'postgres') return target;
  throw new Error('a copy needs an address of Postgres');
}

function stagingName(schema: string): string {
  const name = `_sync_copying_${schema}`;
  if (Buffer.byteLength(name) <= LONGEST_NAME) return name;
  return `_sync_copying_${createHash('sha256').update(schema).digest('hex').slice(0, 32)}`;
}

/** Moving every table takes a lock on each; nobody else knows of them yet. */
const PUBLISH_MS = 600_000;

/**
 * Makes the staging schema the one that it is for, in one transaction: from then on it is a warehouse like all others.
 * Throws `ConfigError('copy_target_used')` if somebody else has made something there meanwhile.
 */
export async function publish(staging: Staging, lease: () => LeaseProof, lastDelivery: number): Promise<void> {
  const { database, schema } = staging;
  const options = { statementMs: PUBLISH_MS, lockMs: PUBLISH_MS, lease: lease() };
  await transact(
    database,
    async (session) => {
      await session.execute("SELECT pg_advisory_xact_lock(hashtext('content-sync migrations'))");
      if ((await relationsIn(session, schema)).length > 0) throw targetUsed(staging.address);
      await session.execute(`CREATE SCHEMA IF NOT EXISTS ${quoted(schema)}`);
      await session.execute(`UPDATE "_sync_copy" SET "finished_at" = now()`);
      await session.execute('TRUNCATE "_sync_leases"');
      await numberDeliveriesFrom(session, lastDelivery);
      for (const { name, kind } of await relationsIn(session, database.schema)) {
        await session.execute(`ALTER ${kind} ${quoted(name)} SET SCHEMA ${quoted(schema)}`);
      }
      for (const statement of await functionMoves(session, database.schema, schema)) await session.execute(statement);
      await session.execute(`DROP SCHEMA ${quoted(database.schema)}`);
    },
    options,
  );
}

/** Takes away all views: nobody reads them here, they are made in the end, and a table may need the name of one. */
export async function dropViews({ database }: Staging, lease: LeaseProof): Promise<void> {
  await transact(
    database,
    async (session) => {
      for (const { name, kind } of await relationsIn(session, database.schema)) {
        if (kind === KINDS.v) await session.execute(`DROP VIEW IF EXISTS ${quoted(name)} CASCADE`);
      }
    },
    { lease },
  );
}

/** The number of a delivery is never given again, even if it is gone. */
async function numberDeliveriesFrom({ execute }: Session, last: number): Promise<void> {
  if (last === 0) return;
  await execute(`SELECT setval(pg_get_serial_sequence('"_sync_deliveries"', 'seq'), $1)`, [last]);
}

const KINDS = { r: 'TABLE', p: 'TABLE', v: 'VIEW', m: 'MATERIALIZED VIEW', f: 'FOREIGN TABLE' } as const;

/** Tables and views of a schema: what belongs to them (indexes, sequences) goes with them. */
async function relationsIn({ execute }: Session, schema: string): Promise<{ name: string; kind: string }[]> {
  const { rows } = await execute<{ name: string; relkind: keyof typeof KINDS }>(
    `SELECT relname AS name, relkind FROM pg_class
      WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1) AND relkind = ANY($2)`,
    [schema, Object.keys(KINDS)],
  );
  return rows.map(({ name, relkind }) => ({ name, kind: KINDS[relkind] }));
}

/**
 * The statements that move the functions of a schema, behind its views. Those in SQL name the views that they read with
 * their schema, and are made anew.
 */
async function functionMoves({ execute }: Session, from: string, to: string): Promise<string[]> {
  const { rows } = await execute<{ statement: string }>(
    `SELECT CASE lanname WHEN 'sql'
        THEN replace(pg_get_functiondef(f.oid), format('%I.', $1::text), format('%I.', $2::text))
          || format('; DROP FUNCTION %s', f.oid::regprocedure)
        ELSE format('ALTER FUNCTION %s SET SCHEMA %I', f.oid::regprocedure, $2::text) END AS statement
     FROM pg_proc f JOIN pg_language ON pg_language.oid = prolang
     WHERE pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1) ORDER BY f.oid`,
    [from, to],
  );
  return rows.map(({ statement }) => statement);
}
