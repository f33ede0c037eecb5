// Opens a SQLite file for writing (`openFile`): configures the connection, checks the file for damage, and migrates it. Each
// statement waits while another program has locked the file, and fails after the file was moved or replaced (`NamedFile`).
import { existsSync, mkdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import path from 'node:path';
import Database from 'better-sqlite3';
import {
  type CompiledQuery,
  type Dialect,
  Kysely,
  type QueryResult,
  sql,
  SqliteAdapter,
  SqliteQueryCompiler,
} from 'kysely';
import type { MigrationDialect } from '../../../../migrations/dialect.ts';
import type { Clock } from '../../../model/clock.ts';
import { ConfigError, messageOf, SyncError } from '../../../model/errors.ts';
import { isUpToDate, migrate, type Migrations } from '../../migrate.ts';
import { createStatementDialect, type RunStatement } from '../../statement-dialect.ts';
import { databaseError, hasErrorCode } from './errors.ts';

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

/** The differences between a warehouse and an inbox. */
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
  const retry = createLockRetry(clock, file);
  const retryWhileLocked: RetryWhileLocked = (work) => retry(() => name.runBetweenChecks(work));
  const dialect = fileDialect((query) => retryWhileLocked(() => runStatement(db, query)));
  try {
    await retryWhileLocked(() => configure(db));
    await retryWhileLocked(() => checkFile(db, file));
    await migrateFile({ db, retryWhileLocked }, new Kysely({ dialect }), migrations, file);
    name.noteOpenFiles();
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

/** No timeout, because SQLite would block the only thread while it waits for a lock: `createLockRetry` waits instead. */
export const BUSY_TIMEOUT_MS = 0;
const RETRY_FOR_MS = 60_000;
const MAX_PAUSE_MS = 25;

/** Runs work again while another program holds the lock. Errors of SQLite become `SyncError`s; any other is a bug. */
export type RetryWhileLocked = <T>(work: () => T | Promise<T>) => Promise<T>;

/** Returns a function that retries work on a file for up to a minute. */
function createLockRetry(clock: Clock, file: string): RetryWhileLocked {
  return async (work) => {
    const deadline = clock.monotonic() + RETRY_FOR_MS;
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await work();
      } catch (error) {
        const isLocked = hasErrorCode(error, /^SQLITE_BUSY/);
        if (!isLocked || clock.monotonic() > deadline) throw databaseError(error, file);
      }
      await clock.sleep(Math.min(2 ** attempt, MAX_PAUSE_MS));
    }
  };
}

/** Kysely's statements on an open file. */
export function fileDialect(run: RunStatement): Dialect {
  return createStatementDialect(new SharedConnection(), new SqliteQueryCompiler(), run);
}

/** Lets statements share the connection: otherwise a write that waits for a lock would block all reads. */
class SharedConnection extends SqliteAdapter {
  override get supportsMultipleConnections(): boolean {
    return true;
  }
}

/** Runs a statement on a connection that may write. */
export function runStatement(
  db: Database.Database,
  { sql, parameters }: CompiledQuery,
): QueryResult<Record<string, unknown>> {
  const statement = db.prepare<unknown[], Record<string, unknown>>(sql);
  if (statement.reader) return { rows: statement.all(...parameters) };
  return { rows: [], numAffectedRows: BigInt(statement.run(...parameters).changes) };
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
  if (db.open && bytes > LARGE_WAL_BYTES) tryTruncateWal(db);
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
  return retryWhileLocked(() => truncateWal(db));
}

function truncateWal(db: Database.Database): boolean {
  return db.pragma('wal_checkpoint(TRUNCATE)', { simple: true }) === 0;
}

function tryTruncateWal(db: Database.Database): boolean {
  try {
    return truncateWal(db);
  } catch {
    return false;
  }
}

/** Suffixes of the path of a database for its log (WAL), which has the latest commits, and for the index of the log. */
const LOG = '-wal';
const INDEX = '-shm';

/**
 * The path of an open database, and the files that were opened there. Notices that they were moved, deleted or replaced.
 * SQLite would continue with the moved file: a webhook would be acknowledged, and stored where no process reads it.
 */
class NamedFile {
  readonly #path: string;
  readonly #identityBefore: string | null;
  /** Identities of database, log and index by the suffix of their paths; empty until they are open. */
  readonly #opened = new Map<string, string>();

  /** To be created before the database is opened. */
  constructor(path: string) {
    this.#path = path;
    this.#identityBefore = readIdentity(path);
  }

  /** Notes which files are open, once the log exists. Throws `warehouse_gone` if the path may lead to another file by now. */
  noteOpenFiles(): void {
    for (const suffix of ['', LOG, INDEX]) {
      const identity = readIdentity(this.#path + suffix);
      if (identity !== null) this.#opened.set(suffix, identity);
    }
    const found = this.#opened.get('');
    const isReplaced = this.#identityBefore !== null && this.#identityBefore !== found;
    if (found === undefined || isReplaced) throw pathLost(this.#path);
  }

  /** True if the paths lead to the open files; a file that did not exist when the database was opened is not compared. */
  leadsToOpenFiles(suffixes: readonly string[] = ['', LOG, INDEX]): boolean {
    return suffixes.every((suffix) => !this.#opened.has(suffix) || this.#isOpenFile(suffix));
  }

  #isOpenFile(suffix: string): boolean {
    return this.#opened.get(suffix) === readIdentity(this.#path + suffix);
  }

  /** Runs work between two checks. Throws `warehouse_gone` if the path leads to another file, also just after the work. */
  async runBetweenChecks<T>(work: () => T | Promise<T>): Promise<T> {
    this.#check();
    const result = await work();
    this.#check();
    return result;
  }

  #check(): void {
    if (!this.leadsToOpenFiles(['', LOG])) throw pathLost(this.#path);
  }

  /** Closes the database. If another file has taken its path, the log must not stay there: SQLite would replay it into that file. */
  async close(db: Database.Database, close: () => Promise<void>): Promise<void> {
    if (this.leadsToOpenFiles() || readIdentity(this.#path) === null) return close();
    const isCopied = tryTruncateWal(db);
    await close();
    const log = this.#path + LOG;
    if (this.#isOpenFile(LOG)) {
      // The operator who moved the file may still need commits that are only in the log.
      if (isCopied) rmSync(log, { force: true });
      else renameSync(log, `${log}.left`);
    }
    if (this.#isOpenFile(INDEX)) rmSync(this.#path + INDEX, { force: true });
  }
}

function pathLost(file: string): SyncError {
  const isGone = readIdentity(file) === null;
  const what = isGone ? 'is no longer there, or may not be read' : 'or its log is no longer the file that was opened';
  const hint = isGone
    ? 'put it back, or restart to begin a new copy'
    : 'restart `serve`, or run the same command again, to go on with the file that is there now';
  return new SyncError('warehouse_gone', `${file} ${what}`, { recovery: 'stop', hint });
}

/** Returns device and inode of a file; null if there is none, or this user may not look at it. */
function readIdentity(path: string): string | null {
  try {
    // Inode numbers may be larger than a double holds.
    const { dev, ino } = statSync(path, { bigint: true });
    return `${dev}:${ino}`;
  } catch {
    return null;
  }
}
