import type { Database } from 'better-sqlite3';
import type { Clock } from '../../model/clock.ts';
import { WAREHOUSE_MIGRATIONS } from '../migrate.ts';
import type { OwnTables } from '../own-tables.ts';
import type { Warehouse } from '../warehouse.ts';
import { NUMBER_TEXT } from './widening/ddl.ts';
import { openFile } from './connection/open-file.ts';
import { sqliteWarehouse } from './sqlite-warehouse.ts';

/** Opens (and makes, and migrates) a source's database file. Throws `ConfigError` where it cannot be used. */
export async function openSqlite(file: string, clock: Clock): Promise<Warehouse> {
  const kind = { migrations: WAREHOUSE_MIGRATIONS, configure };
  return sqliteWarehouse(await openFile<OwnTables>(file, clock, kind), clock);
}

function configure(db: Database): void {
  // Larger pages make wide rows cheaper; they only take effect on a file that is still empty.
  db.pragma('page_size = 16384');
  db.pragma('journal_mode = WAL');
  // A power cut may take the last pages, together with their checkpoint: they are fetched again.
  db.pragma('synchronous = NORMAL');
  db.pragma('cache_size = -8000');
  // Each multi-row insert keeps a journal of its own to undo it alone; in a file it costs more than the rows.
  db.pragma('temp_store = MEMORY');
  db.pragma('journal_size_limit = 67108864');
  db.function(NUMBER_TEXT, { deterministic: true }, String);
}
