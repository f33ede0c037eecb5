import { existsSync, mkdirSync, statSync } from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { Kysely, sql } from 'kysely';
import type { MigrationDialect } from '../../../../migrations/dialect.ts';
import type { Clock } from '../../../model/clock.ts';
import { ConfigError, messageOf } from '../../../model/errors.ts';
import { isUpToDate, migrate, type Migrations } from '../../migrate.ts';
import { databaseError } from './errors.ts';
import { BUSY_TIMEOUT_MS, lockRetryingDialect, lockRetry, type RetryWhileLocked } from './wait-for-lock.ts';
import { namedFile, type NamedFile } from './named-file.ts';

interface FileKind {
  migrations: Migrations;
  /** Sets what the connection is to be like; tried again while another program holds the lock. */
  configure: (db: Database.Database) => void;
}

/** A database file of ours: open, checked and up to date. */
export interface OpenFile<Tables> {
  db: Database.Database;
  own: Kysely<Tables>;
  /** Throws `warehouse_gone`, too, if the file is not the one of its name any more. */
  retryWhileLocked: RetryWhileLocked;
  name: NamedFile;
  close: () => Promise<void>;
}

/** Opens (and makes, and migrates) a database file. Throws `ConfigError` if it cannot be used. */
export async function openFile<Tables>(
  file: string,
  clock: Clock,
  { migrations, configure }: FileKind,
): Promise<OpenFile<Tables>> {
  const name = namedFile(file);
  const db = openDatabase(file);
  const waiting = lockRetry(clock, file);
  const retryWhileLocked: RetryWhileLocked = (work) => waiting(() => name.whileNamed(work));
  const own = new Kysely<Tables>({ dialect: lockRetryingDialect(db, retryWhileLocked) });
  try {
    await retryWhileLocked(() => configure(db));
    await retryWhileLocked(() => checkFile(db, file));
    await migrateLocked({ db, own, retryWhileLocked }, migrations, file);
    name.opened();
    const close = async (): Promise<void> => {
      await own.destroy();
      // Kysely closes only what it has sent a query to.
      db.close();
    };
    return {
      db,
      own,
      retryWhileLocked,
      name,
      close: () => name.close(db, close),
    };
  } catch (error) {
    db.close();
    throw databaseError(error, file);
  }
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

async function migrateLocked<Tables>(
  { db, own, retryWhileLocked }: Pick<OpenFile<Tables>, 'db' | 'own' | 'retryWhileLocked'>,
  migrations: Migrations,
  file: string,
): Promise<void> {
  // Asked first, because to compare all tables with the steps takes longer than all else that opens a file.
  if (await retryWhileLocked(() => isUpToDate(file, stepsDone(db), migrations))) return;
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

function stepsDone(db: Database.Database): Set<string> {
  const there = db.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = '_sync_migrations'").get();
  if (there === undefined) return new Set();
  return new Set(db.prepare<[], string>('SELECT "name" FROM "_sync_migrations"').pluck().all());
}

/** Up to here a file is checked at every start, which takes some 40 ms; damage of a larger one shows when it is read. */
const CHECKED_BYTES = 64 * 1_048_576;

/** Throws `ConfigError('warehouse_corrupt')` if the pages of the file do not make a database; before any write. */
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
  // A text tells no zone: all of ours are UTC.
  zoneTimes: () => Promise.resolve(),
  hasColumn: async (db, table, column) => {
    const { rows } = await sql`SELECT 1 FROM pragma_table_info(${table}) WHERE name = ${column}`.execute(db);
    return rows.length > 0;
  },
  growing: { type: 'integer', number: (column) => column.autoIncrement() },
  // Bare, it keeps its declared type; a CAST would make a number or a plain text of it.
  moment: (expression) => expression,
  replaceView: async (db, name, query) => {
    await sql`DROP VIEW ${sql.id(name)}`.execute(db);
    await sql`CREATE VIEW ${sql.id(name)} AS ${query}`.execute(db);
  },
  hasFunctions: false,
  hasTypedExpressions: false,
};
