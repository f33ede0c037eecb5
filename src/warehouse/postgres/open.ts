import type { Clock } from '../../model/clock.ts';
import { WAREHOUSE_MIGRATIONS } from '../migrate.ts';
import type { OwnTables } from '../own-tables.ts';
import type { Warehouse } from '../warehouse.ts';
import { openDatabase } from './connection/open-database.ts';
import { postgresWarehouse } from './postgres-warehouse.ts';

/**
 * Opens (and makes, and migrates) a source's schema; `rest` is what stands behind `postgres:` in its address. Throws
 * `ConfigError` where it cannot be used.
 */
export async function openPostgres(rest: string, clock: Clock): Promise<Warehouse> {
  const kind = { migrations: WAREHOUSE_MIGRATIONS, table: '_sync_migrations' };
  const opened = await openDatabase<OwnTables>(rest, clock, kind);
  return postgresWarehouse(opened.database, opened.own, () => opened.close());
}
