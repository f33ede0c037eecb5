import { createHash } from 'node:crypto';
import type { Clock } from '../../model/clock.ts';
import { ConfigError } from '../../model/errors.ts';
import { INBOX_MIGRATIONS } from '../migrate.ts';
import { postgresPlace } from '../postgres/connection/address.ts';
import { openDatabase } from '../postgres/connection/open-database.ts';
import { openPostgres } from '../postgres/open.ts';
import { borrowPool } from '../postgres/connection/pools.ts';
import { execute, type Database } from '../postgres/connection/transact.ts';
import type { Warehouse } from '../warehouse.ts';
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

/** Opens (and makes) the staging schema for a Postgres address. Throws `ConfigError` where that cannot be. */
export async function openStaging(address: string, clock: Clock): Promise<Staging> {
  const rest = restOf(address);
  const { schema } = postgresPlace(rest);
  const url = new URL(`postgres:${rest}`);
  url.searchParams.set('schema', stagingName(schema));
  const staged = url.href.slice('postgres:'.length);
  const opened = new AsyncDisposableStack();
  try {
    const warehouse = await openPostgres(staged, clock);
    opened.defer(() => warehouse.close());
    const inbox = { migrations: INBOX_MIGRATIONS, table: '_sync_inbox_migrations' };
    const deliveries = await openDatabase(staged, clock, inbox);
    opened.defer(() => deliveries.close());
    const { database } = deliveries;
    return { database, warehouse, address, schema, close: () => opened.disposeAsync() };
  } catch (error) {
    await opened.disposeAsync();
    throw error;
  }
}

/**
 * What an earlier copy left in the schema that an address names; null where nothing is there yet. Throws
 * `ConfigError('copy_target_used')` where a warehouse, or anything else, is there that no copy made.
 */
export async function findReceipt(address: string, clock: Clock): Promise<Receipt | null> {
  const { connection, schema, shown } = postgresPlace(restOf(address));
  const borrowed = borrowPool(connection);
  try {
    const database: Database = { pool: borrowed.pool, schema, shown, clock, random: Math.random };
    const names = await relationNames(database, schema);
    if (names.size === 0) return null;
    if (names.has('_sync_copy')) return await readReceipt(database);
    throw targetUsed(address);
  } finally {
    await borrowed.giveBack();
  }
}

/** `copiedAt` where what is there is a copy of an earlier state. */
export function targetUsed(address: string, copiedAt: string | null = null): ConfigError {
  const { shown } = postgresPlace(restOf(address));
  const why =
    copiedAt === null
      ? 'is not empty'
      : `holds a copy that was finished at ${copiedAt} UTC, and the SQLite warehouse has been written to since`;
  return new ConfigError('copy_target_used', `${shown} ${why}: nothing was copied there`, {
    hint: 'name a database or a schema in which nothing is yet, such as postgres://host/database?schema=blog_new',
  });
}

/** Tables, views and the like in a schema. */
async function relationNames(database: Database, schema: string): Promise<Set<string>> {
  const { rows } = await execute(database, { patienceMs: 5_000 })<{ name: string }>(
    `SELECT relname AS name FROM pg_class WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)`,
    [schema],
  );
  return new Set(rows.map(({ name }) => name));
}

function restOf(address: string): string {
  return address.slice(address.indexOf(':') + 1);
}

function stagingName(schema: string): string {
  const name = `_sync_copying_${schema}`;
  if (Buffer.byteLength(name) <= LONGEST_NAME) return name;
  return `_sync_copying_${createHash('sha256').update(schema).digest('hex').slice(0, 32)}`;
}
