// Opens a database file for writing: verified, migrated, and refused once another file has taken its path.
import { existsSync, mkdirSync, statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import path from 'node:path';
import Database from 'better-sqlite3';
import { Kysely, sql } from 'kysely';
import type { MigrationDialect } from '../../../../migrations/dialect.ts';
import type { Clock } from '../../../model/clock.ts';
import { ConfigError, messageOf, SyncError } from '../../../model/errors.ts';
import { isUpToDate, migrate, type Migrations } from '../../migrate.ts';
import {
  databaseError,
  hasErrorCode,
  BUSY_TIMEOUT_MS,
  fileDialect,
  lockRetry,
  type RetryWhileLocked,
  runStatement,
} from './errors.ts';
import { NamedFile } from './named-file.ts';

/** A connection to a database file, and how its work waits for locks. */
export interface FileConnection {
  db: Database.Database;
  /** Also throws `warehouse_gone` if the file at its path was replaced. */
  retryWhileLocked: RetryWhileLocked;
}

/** A database file that is open, verified and migrated. */
export interface OpenFile<Tables> extends FileConnection {
  own: Kysely<Tables>;
  name: NamedFile;
  close: () => Promise<void>;
}

interface SqliteFileKind {
  migrations: Migrations;
  /** Sets the pragmas of the connection; tried again while another program holds the lock. */
  configure: (db: Database.Database) => void;
}

/** Opens (and creates, and migrates) a database file. Throws `ConfigError` if it cannot be used. */
export async function openFile<Tables>(
  file: string,
  clock: Clock,
  { migrations, configure }: SqliteFileKind,
): Promise<OpenFile<Tables>> {
  const name = new NamedFile(file);
  const db = openDatabase(file);
  const waiting = lockRetry(clock, file);
  const retryWhileLocked: RetryWhileLocked = (work) => waiting(() => name.whileNamed(work));
  const dialect = fileDialect((query) => retryWhileLocked(() => runStatement(db, query)));
  try {
    await retryWhileLocked(() => configure(db));
    await retryWhileLocked(() => checkFile(db, file));
    await migrateFile({ db, retryWhileLocked }, new Kysely({ dialect }), migrations, file);
    name.opened();
  } catch (error) {
    db.close();
    throw databaseError(error, file);
  }
  const own = new Kysely<Tables>({ dialect });
  const close = async (): Promise<void> => {
    await own.destroy();
    db.close();
  };
  return { db, own, retryWhileLocked, name, close: () => name.close(db, close) };
}

function openDatabase(file: string): Database.Database {
  try {
    makeFolder(path.dirname(file));
    return new Database(file, { timeout: BUSY_TIMEOUT_MS });
  } catch (error) {
    const known = databaseError(error, file);
    if (known !== error) throw known;
    throw new ConfigError('warehouse_unreachable', `${file}: ${messageOf(error)}`, {
      hint: 'check the path in `warehouse` and that this user may write there',
      cause: error,
    });
  }
}

/** Creates the folders one by one: Node's `recursive` never ends on a file system that returns ENOENT, such as /proc. */
function makeFolder(folder: string): void {
  if (existsSync(folder)) return;
  makeFolder(path.dirname(folder));
  try {
    mkdirSync(folder);
  } catch (error) {
    // Another process may have created it.
    if (!existsSync(folder)) throw error;
  }
}

async function migrateFile(
  { db, retryWhileLocked }: FileConnection,
  own: Kysely<unknown>,
  migrations: Migrations,
  file: string,
): Promise<void> {
  // This query is much faster than the migrator's comparison of all tables.
  if (await retryWhileLocked(() => isUpToDate(file, new Set(stepsDone(db)), migrations))) return;
  // One write transaction around all steps: two processes that start together migrate one after the other.
  await retryWhileLocked(() => db.exec('BEGIN IMMEDIATE'));
  try {
    await migrate(own, { migrations, dialect: MIGRATION_DIALECT, shown: file });
    db.exec('COMMIT');
  } catch (error) {
    if (db.inTransaction) db.exec('ROLLBACK');
    throw error;
  }
}

/** Names of the migrations that were applied to the file; null if it has no internal tables. */
export function stepsDone(db: Database.Database): string[] | null {
  const table = db.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = '_sync_migrations'").get();
  return table === undefined ? null : db.prepare<[], string>('SELECT "name" FROM "_sync_migrations"').pluck().all();
}

/** Files up to this size are checked at every start, in 40 ms; damage of a larger one is found when it is read. */
const CHECKED_BYTES = 64 * 1_048_576;

/** Throws `ConfigError('warehouse_corrupt')` before any write if the file's pages are inconsistent. */
function checkFile(db: Database.Database, file: string): void {
  if (statSync(file).size > CHECKED_BYTES) return;
  const lines = db.prepare<[], string>('PRAGMA quick_check').pluck().all();
  const first = lines.find((line) => line !== 'ok');
  if (first === undefined) return;
  throw new ConfigError('warehouse_corrupt', `${file}: the database is damaged: ${first}`, {
    hint: 'restore a backup of it, or move it away and copy everything again: content-sync backfill',
  });
}

const MIGRATION_DIALECT: MigrationDialect = {
  bytes: 'blob',
  timestamp: sql`timestamp`,
  // A text has no zone: all of them are UTC.
  zoneTimes: () => Promise.resolve(),
  hasColumn: async (db, table, column) => {
    const { rows } = await sql`SELECT 1 FROM pragma_table_info(${table}) WHERE name = ${column}`.execute(db);
    return rows.length > 0;
  },
  growing: { type: 'integer', number: (column) => column.autoIncrement() },
  // Without a CAST it keeps its declared type.
  moment: (expression) => expression,
  replaceView: async (db, name, query) => {
    await sql`DROP VIEW ${sql.id(name)}`.execute(db);
    await sql`CREATE VIEW ${sql.id(name)} AS ${query}`.execute(db);
  },
  hasFunctions: false,
  hasTypedExpressions: false,
};

/** Memory for pages of the file: enough for the transaction of a page of records. */
export const CACHE_SIZE_KIB = 8_000;

/** The SQL function that writes a number as JSON and JavaScript do. */
export const NUMBER_TEXT = '_sync_number_text';

/** Configures a connection for the warehouse. */
export function configureWarehouse(db: Database.Database): void {
  // Larger pages make wide rows cheaper; they only take effect on a file that is still empty.
  db.pragma('page_size = 16384');
  db.pragma('journal_mode = WAL');
  // A power cut may lose the last pages of records with their checkpoint: they are fetched again.
  db.pragma('synchronous = NORMAL');
  db.pragma(`cache_size = -${CACHE_SIZE_KIB}`);
  // Each multi-row insert writes a journal to be able to undo it; in a file that costs more than the rows.
  db.pragma('temp_store = MEMORY');
  db.pragma('journal_size_limit = 67108864');
  // Limits the time that ANALYZE holds the write lock.
  db.pragma('analysis_limit = 400');
  // Child rows are written in the transaction of their record, so that each lookup would be wasted.
  db.pragma('foreign_keys = OFF');
  db.function(NUMBER_TEXT, { deterministic: true }, String);
}

/** SQLite's automatic checkpoints keep the WAL at about this size. */
const LARGE_WAL_BYTES = 15 * 1_048_576;

/**
 * Copies a large WAL into the database and truncates it: automatic checkpoints never truncate it, so that gigabytes
 * would remain after a long read transaction. Never throws: a program may still need the WAL, or the disk may fail.
 */
export function truncateLargeWal(db: Database.Database): void {
  // SQLite removes the WAL when the last connection closes, and creates it with the first write.
  const bytes = statSync(`${db.name}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  if (!db.open || bytes <= LARGE_WAL_BYTES) return;
  try {
    db.pragma('wal_checkpoint(TRUNCATE)');
  } catch {
    // The next call tries again.
  }
}

/** Flushes the WAL to the disk: a warehouse commits without waiting for that. Throws `SyncError`. */
export async function syncWal(file: string): Promise<void> {
  try {
    await using log = await open(`${file}-wal`, 'r+');
    await log.datasync();
  } catch (error) {
    // Nothing was written yet, or the last connection has copied everything into the database.
    if (hasErrorCode(error, /^ENOENT$/)) return;
    throw new SyncError('warehouse_full', `${file}-wal: ${messageOf(error)}`, {
      recovery: 'stop',
      hint: 'the disk does not take what was written: check the volume of the warehouse',
      cause: error,
    });
  }
}

/** Rebuilds the file, so that no free space holds deleted data, and empties its log as `emptyLog` does. */
export async function cleanFile(open: FileConnection): Promise<boolean> {
  await open.retryWhileLocked(() => open.db.exec('VACUUM'));
  return emptyLog(open);
}

/** Copies the log into the file and truncates it. Returns false while a reader still needs the log. */
export function emptyLog({ db, retryWhileLocked }: FileConnection): Promise<boolean> {
  return retryWhileLocked(() => db.pragma('wal_checkpoint(TRUNCATE)', { simple: true }) === 0);
}
