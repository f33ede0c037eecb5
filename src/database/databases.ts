import type { Clock } from '../model/clock.ts';
import { ConfigError } from '../model/errors.ts';
import { readAddress, SCHEMES, type DatabaseKind, type WarehouseAddress } from '../config/warehouse-address.ts';
import type { Coordination } from './coordination.ts';
import type { Database, InboxOptions, Readers, ReadersRequest, SharedDatabase } from './database.ts';
import type { Inbox } from './inbox.ts';
import { declareDatabase as postgres } from './postgres/database.ts';
import type { WarehouseReader } from './reading.ts';
import type { InboxViewer } from './inbox-queries.ts';
import { declareDatabase as sqlite } from './sqlite/database.ts';
import type { SnapshotReader } from './snapshot-reader.ts';
import type { Warehouse } from './warehouse.ts';

/** All kinds of database: a further one is a folder beside these, and a line here. */
const DATABASES: { readonly [Kind in DatabaseKind]: (address: WarehouseAddress<Kind>) => Database } = {
  sqlite,
  postgres,
};

function declared<Kind extends DatabaseKind>(address: WarehouseAddress<Kind>): Database {
  return DATABASES[address.kind](address);
}

/** The database at an address; null if none is known by it. */
export function findDatabase(address: string): Database | null {
  const read = readAddress(address);
  return read === null ? null : declared(read);
}

/**
 * The database at an address such as `sqlite:/var/lib/content-sync/blog.db` or `postgres://host/database?schema=blog`.
 * Throws `ConfigError('config_invalid')` if none is known by it.
 */
export function databaseAt(address: string, what: 'database' | 'inbox' = 'database'): Database {
  const database = findDatabase(address);
  if (database !== null) return database;
  throw new ConfigError('config_invalid', `warehouse: no ${what} is known by "${address.replace(/:.*$/s, '')}:"`, {
    hint: `use one of ${Object.keys(SCHEMES).join(', ')}, such as sqlite:data/{source}.db`,
  });
}

/** The part of the database that processes of many machines share; null if one process does all the work, or if it is no address. */
export function sharedDatabase(address: string): SharedDatabase | null {
  return findDatabase(address)?.shared ?? null;
}

/** Where a warehouse is, as a person would look for it; never with user or password. */
export function shownPlace(address: string): string {
  return databaseAt(address).shown;
}

export async function openWarehouse(address: string, clock: Clock): Promise<Warehouse> {
  return databaseAt(address).openWarehouse(clock);
}

/**
 * Opens what all processes share that write to the database of an address; null if it has nothing of the kind. All
 * sources of a process on one database share one. Throws `ConfigError` if it cannot be used.
 */
export async function openCoordination(address: string, clock: Clock): Promise<Coordination | null> {
  return (await sharedDatabase(address)?.openCoordination(clock)) ?? null;
}

/** `sqlite:/var/lib/content-sync/blog.db` to `sqlite:/var/lib/content-sync/blog-inbox.db`; on a server the same. */
export function inboxAddress(warehouse: string): string {
  return databaseAt(warehouse, 'inbox').inbox;
}

/** Opens (and makes, and migrates) the inbox at the address of one. Throws `ConfigError` if it cannot be used. */
export async function openInbox(address: string, clock: Clock, options?: InboxOptions): Promise<Inbox> {
  return databaseAt(address, 'inbox').openInbox(clock, options);
}

/**
 * Opens the warehouse for those who only read: nothing is made or changed, and no right to write is needed. Throws
 * `ConfigError` if it cannot be read, or is of another version; `warehouse_missing` if there is none yet.
 */
export async function openWarehouseToRead(address: string, clock: Clock): Promise<WarehouseReader> {
  const database = databaseAt(address);
  return (await database.lookForWarehouse(clock)) ?? refuseMissing(database);
}

/** The same for those who read much of it, all as of one moment. */
export async function openSnapshot(address: string, clock: Clock, isBeside = false): Promise<SnapshotReader> {
  const database = databaseAt(address);
  return (await database.openSnapshot(clock, isBeside)) ?? refuseMissing(database);
}

function refuseMissing({ shown }: Database): never {
  throw new ConfigError('warehouse_missing', `${shown}: there is no warehouse yet`, {
    hint: 'content-sync backfill makes it; where there should be one, check `warehouse` in the config, and the folder that content-sync is started in',
  });
}

/** The inbox of a warehouse. Throws `ConfigError('inbox_missing')` if there is none yet. */
export async function openInboxToRead(warehouse: string, clock: Clock): Promise<InboxViewer> {
  const inbox = databaseAt(inboxAddress(warehouse));
  const viewer = await inbox.lookForInbox(clock);
  if (viewer !== null) return viewer;
  throw new ConfigError('inbox_missing', `${inbox.shown}: there is no inbox yet`, {
    hint: 'the first content-sync serve that receives webhooks makes it; where there should be one, check `warehouse` in the config, and the folder that content-sync is started in',
  });
}

/** Names that no role can have, or that are too long for one. */
const NO_ROLE = /^(?:pg_|public$|none$|current_|session_user$)|^$|\0/;
const LONGEST = 63;

/** Lets a role read a source's copied tables and views, and nothing else of ours. Throws `ConfigError`, `SyncError`. */
export async function changeReaders(address: string, clock: Clock, request: ReadersRequest): Promise<Readers> {
  const { role } = request;
  if (NO_ROLE.test(role) || Buffer.byteLength(role) > LONGEST) {
    throw new ConfigError('usage', `"${role}" cannot be the name of a role`, { hint: 'name another one with --role' });
  }
  return databaseAt(address).changeReaders(clock, request);
}
