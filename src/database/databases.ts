// Opens databases by address, whatever their kind.
import { readAddress, SCHEMES } from '../config/warehouse-address.ts';
import type { Clock } from '../model/clock.ts';
import { ConfigError } from '../model/errors.ts';
import type { Coordination } from './coordination.ts';
import type { Database, InboxOptions, Readers, ReadersRequest, SharedDatabase } from './database.ts';
import type { SnapshotReader } from './snapshot-reader.ts';
import type { Inbox, InboxViewer } from './inbox.ts';
import { missingWarehouse } from './migrate.ts';
import { declareDatabase as postgres } from './postgres/database.ts';
import type { WarehouseReader } from './reading.ts';
import { declareDatabase as sqlite } from './sqlite/database.ts';
import type { Warehouse } from './warehouse.ts';

/** Returns the database at an address; null if its kind is unknown. */
function findDatabase(address: string): Database | null {
  const read = readAddress(address);
  if (read === null) return null;
  return read.kind === 'sqlite' ? sqlite(read) : postgres(read);
}

/**
 * Returns the database at an address such as `sqlite:/var/lib/content-sync/blog.db` or
 * `postgres://host/database?schema=blog`. Throws `ConfigError('settings_invalid')`.
 */
export function databaseAt(address: string, what: 'database' | 'inbox' = 'database'): Database {
  const database = findDatabase(address);
  if (database !== null) return database;
  throw new ConfigError('settings_invalid', `warehouse: no ${what} is known by "${address.replace(/:.*$/s, '')}:"`, {
    hint: `use one of ${Object.keys(SCHEMES).join(', ')}, such as sqlite:data/{source}.db`,
  });
}

/** What processes of many machines share at an address; null if one process does all the work, or if it is no address. */
export function sharedDatabase(address: string): SharedDatabase | null {
  return findDatabase(address)?.shared ?? null;
}

export async function openWarehouse(address: string, clock: Clock): Promise<Warehouse> {
  return databaseAt(address).openWarehouse(clock);
}

/** Opens the coordination at an address; null for a database without one. Throws `ConfigError`. */
export async function openCoordination(address: string, clock: Clock): Promise<Coordination | null> {
  return (await sharedDatabase(address)?.openCoordination(clock)) ?? null;
}

/** `sqlite:/var/lib/content-sync/blog.db` to `sqlite:/var/lib/content-sync/blog-inbox.db`; on a server the same. */
export function inboxAddress(warehouse: string): string {
  return databaseAt(warehouse, 'inbox').inbox;
}

/** Opens (and creates, and migrates) an inbox. Throws `ConfigError`. */
export async function openInbox(address: string, clock: Clock, options?: InboxOptions): Promise<Inbox> {
  return databaseAt(address, 'inbox').openInbox(clock, options);
}

/** Opens a warehouse for reading. Throws `ConfigError`; `warehouse_missing` if there is none yet. */
export async function openWarehouseToRead(address: string, clock: Clock): Promise<WarehouseReader> {
  const database = databaseAt(address);
  return (await database.openExistingWarehouse(clock)) ?? refuseMissing(database);
}

/** Opens a snapshot of a warehouse. Throws as `openWarehouseToRead` does. */
export async function openSnapshot(address: string, clock: Clock, isShared = false): Promise<SnapshotReader> {
  const database = databaseAt(address);
  return (await database.openSnapshot(clock, isShared)) ?? refuseMissing(database);
}

function refuseMissing({ shown }: Database): never {
  throw missingWarehouse(shown);
}

/** Opens the inbox of a warehouse for reading. Throws `ConfigError('warehouse_missing')` if there is none yet. */
export async function openInboxToRead(warehouse: string, clock: Clock): Promise<InboxViewer> {
  const inbox = databaseAt(inboxAddress(warehouse));
  const viewer = await inbox.openExistingInbox(clock);
  if (viewer !== null) return viewer;
  throw new ConfigError('warehouse_missing', `${inbox.shown}: there is no inbox yet`, {
    hint: 'the first content-sync serve that receives webhooks makes it; where there should be one, check `warehouse` in the config, and the folder that content-sync is started in',
  });
}

/** Names that Postgres reserves. */
const RESERVED_ROLES = /^(?:pg_|public$|none$|current_|session_user$)|^$|\0/;
const MAX_ROLE_BYTES = 63;

/** Lets a role read a source's copied tables and views. Throws `ConfigError` and `SyncError`. */
export async function changeReaders(address: string, clock: Clock, request: ReadersRequest): Promise<Readers> {
  const { role } = request;
  if (RESERVED_ROLES.test(role) || Buffer.byteLength(role) > MAX_ROLE_BYTES) {
    throw new ConfigError('usage', `"${role}" cannot be the name of a role`, { hint: 'name another one with --role' });
  }
  return databaseAt(address).changeReaders(clock, request);
}
