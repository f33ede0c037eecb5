import { createHash } from 'node:crypto';
import type { Clock } from '../../model/clock.ts';
import { ConfigError } from '../../model/errors.ts';
import { readAddress } from '../../settings/warehouse-address.ts';
import { shownAddress, type PostgresAddress } from '../postgres/connection/address.ts';
import { INBOX_TABLES, openDatabase } from '../postgres/connection/open-database.ts';
import { borrowDatabase } from '../postgres/connection/pools.ts';
import { execute, type Database } from '../postgres/connection/transact.ts';
import { openWarehouse } from '../postgres/warehouse.ts';
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
 * What an earlier copy left in the schema that an address names; null where nothing is there yet. Throws
 * `ConfigError('copy_target_used')` where a warehouse, or anything else, is there that no copy made.
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

/** `copiedAt` where what is there is a copy of an earlier state. */
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
  const { rows } = await execute(database, { patienceMs: 5_000 })<{ name: string }>(
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
