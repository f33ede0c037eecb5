import type { Clock } from '../model/clock.ts';
import { ConfigError } from '../model/errors.ts';
import { inboxAddress } from './open-inbox.ts';
import { lookIntoPostgres, lookIntoPostgresInbox, refuseMakingPostgres } from './postgres/open-to-read.ts';
import type { InboxViewer, WarehouseReader } from './reading.ts';
import { shownPlace } from './shown-place.ts';
import { lookIntoSqlite, lookIntoSqliteInbox, refuseMakingSqlite } from './sqlite/open-to-read.ts';

interface DatabaseToRead {
  /** Null where nothing of ours is there. */
  warehouse: (place: string, clock: Clock) => Promise<WarehouseReader | null>;
  inbox: (place: string, clock: Clock) => Promise<InboxViewer | null>;
  refuseMaking: (place: string, clock: Clock) => Promise<void>;
}

const POSTGRES: DatabaseToRead = {
  warehouse: lookIntoPostgres,
  inbox: lookIntoPostgresInbox,
  refuseMaking: refuseMakingPostgres,
};

/** By the scheme of the `warehouse` setting; a further database is a further row. */
const DATABASES: Readonly<Record<string, DatabaseToRead>> = {
  sqlite: { warehouse: lookIntoSqlite, inbox: lookIntoSqliteInbox, refuseMaking: refuseMakingSqlite },
  postgres: POSTGRES,
  postgresql: POSTGRES,
};

/**
 * Opens the warehouse at an address for those who only read: nothing is made or changed, and no right to write is
 * needed. Null where there is none yet. Throws `ConfigError` where it cannot be read, or is of another version.
 */
export function lookForWarehouse(address: string, clock: Clock): Promise<WarehouseReader | null> {
  const { place, database } = parseAddress(address);
  return database.warehouse(place, clock);
}

/** The same. Throws `ConfigError('warehouse_missing')` where there is none yet. */
export async function openWarehouseToRead(address: string, clock: Clock): Promise<WarehouseReader> {
  const reader = await lookForWarehouse(address, clock);
  if (reader !== null) return reader;
  throw new ConfigError('warehouse_missing', `${shownPlace(address)}: there is no warehouse yet`, {
    hint: 'content-sync backfill makes it; where there should be one, check `warehouse` in the config, and the folder that content-sync is started in',
  });
}

/** The inbox of a warehouse. Throws `ConfigError('inbox_missing')` where there is none yet. */
export async function openInboxToRead(warehouse: string, clock: Clock): Promise<InboxViewer> {
  const address = inboxAddress(warehouse);
  const { place, database } = parseAddress(address);
  const viewer = await database.inbox(place, clock);
  if (viewer !== null) return viewer;
  throw new ConfigError('inbox_missing', `${shownPlace(address)}: there is no inbox yet`, {
    hint: 'the first content-sync serve that receives webhooks makes it; where there should be one, check `warehouse` in the config, and the folder that content-sync is started in',
  });
}

/** Throws `ConfigError` where no warehouse could be made at an address at which there is none. */
export function refuseMaking(address: string, clock: Clock): Promise<void> {
  const { place, database } = parseAddress(address);
  return database.refuseMaking(place, clock);
}

function parseAddress(address: string): { place: string; database: DatabaseToRead } {
  const [, scheme = '', place = ''] = /^([a-z]+):(.*)$/s.exec(address) ?? [];
  const database = DATABASES[scheme];
  if (database !== undefined) return { place, database };
  throw new ConfigError('config_invalid', `warehouse: no database is known by "${scheme}:"`, {
    hint: `use one of ${Object.keys(DATABASES).join(', ')}, such as sqlite:data/{source}.db`,
  });
}
