import { existsSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { Kysely } from 'kysely';
import type { Clock } from '../../model/clock.ts';
import { ConfigError, messageOf } from '../../model/errors.ts';
import { migrate } from '../migrate.ts';
import type { OwnTables } from '../own-tables.ts';
import type { Warehouse } from '../warehouse.ts';
import { checkFile } from './check-file.ts';
import { NUMBER_TEXT } from './ddl.ts';
import { sqliteError } from './errors.ts';
import { patientDialect } from './patient-dialect.ts';
import { sqliteWarehouse } from './sqlite-warehouse.ts';
import { BUSY_TIMEOUT_MS, patience, type Patiently } from './wait-for-lock.ts';

/** Opens (and makes, and migrates) a source's database file. Throws `ConfigError` where it cannot be used. */
export async function openSqlite(file: string, clock: Clock): Promise<Warehouse> {
  const db = openFile(file);
  const patiently = patience(clock, file);
  const own = new Kysely<OwnTables>({ dialect: patientDialect(db, patiently) });
  try {
    await patiently(() => configure(db));
    await patiently(() => checkFile(db, file));
    await migrateLocked(db, own, patiently, file);
    return sqliteWarehouse(db, own, patiently);
  } catch (error) {
    db.close();
    throw sqliteError(error, file);
  }
}

function openFile(file: string): Database.Database {
  try {
    makeFolder(path.dirname(file));
    return new Database(file, { timeout: BUSY_TIMEOUT_MS });
  } catch (error) {
    const known = sqliteError(error, file);
    if (known !== error) throw known;
    throw new ConfigError('warehouse_unreachable', `${file}: ${messageOf(error)}`, {
      hint: 'check the path in `warehouse` and that this user may write there',
      cause: error,
    });
  }
}

/** Level by level: Node's own `recursive` never ends where a file system answers ENOENT, as /proc does. */
function makeFolder(folder: string): void {
  if (existsSync(folder)) return;
  makeFolder(path.dirname(folder));
  try {
    mkdirSync(folder);
  } catch (error) {
    // Another process may have been faster.
    if (!existsSync(folder)) throw error;
  }
}

function configure(db: Database.Database): void {
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

async function migrateLocked(
  db: Database.Database,
  own: Kysely<OwnTables>,
  patiently: Patiently,
  file: string,
): Promise<void> {
  // One write transaction around all steps: two processes that start together migrate one after the other.
  await patiently(() => db.exec('BEGIN IMMEDIATE'));
  try {
    await migrate(own, file);
    db.exec('COMMIT');
  } catch (error) {
    if (db.inTransaction) db.exec('ROLLBACK');
    throw error;
  }
}
