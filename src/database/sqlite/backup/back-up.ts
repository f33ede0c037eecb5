import { closeSync, existsSync, fsyncSync, openSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { ConfigError } from '../../../model/errors.ts';
import type { BackupReport, BackupRequest } from '../../database.ts';
import { isOtherRunning } from '../../state/leases.ts';
import { databaseError } from '../connection/errors.ts';
import { stepsDone } from '../connection/open-file.ts';

/** The files of one source. */
export interface SourceFiles {
  warehouse: string;
  inbox: string;
}

/** A process that is just starting holds the lock briefly. */
const LOCK_TIMEOUT_MS = 5_000;
const PAGES_PER_STEP = 1_000;

/** Increment it if older versions cannot read a new backup. */
export const BACKUP_FORMAT = 2;

/** A backup is the warehouse file with two more tables: its origin, and the deliveries of the inbox, if there is one. */
export const ORIGIN_TABLE = '_sync_backup';
export const DELIVERIES_TABLE = '_sync_backup_deliveries';

/**
 * Writes warehouse and inbox as of one time into one file, while other processes write to them. Throws `ConfigError`;
 * then a file at the path is unchanged.
 */
export async function backUp(files: SourceFiles, request: BackupRequest): Promise<BackupReport> {
  const { to, clock, signal } = request;
  refuseTarget(to, files);
  removeLeftovers(to);
  const part = `${to}.${process.pid}.part`;
  try {
    const takenAt = clock.now();
    // The inbox is frozen first: the warehouse then has the rows of all its finished deliveries.
    using inbox = existsSync(files.inbox) ? freeze(files.inbox) : null;
    using warehouse = freeze(files.warehouse);
    const progress = (): number => {
      signal.throwIfAborted();
      return PAGES_PER_STEP;
    };
    await warehouse.db.backup(part, { progress });
    finishCopy(part, inbox?.db ?? null, { ...request, takenAt });
    signal.throwIfAborted();
    renameSync(part, to);
    syncFolder(to);
    return { takenAt, bytes: statSync(to).size, hasInbox: inbox !== null };
  } catch (error) {
    throw databaseError(error, to);
  } finally {
    for (const end of ['', '-journal']) rmSync(`${part}${end}`, { force: true });
  }
}

/** Removes the partial files of killed backups to the same path. */
function removeLeftovers(to: string): void {
  const folder = path.dirname(to);
  for (const name of readdirSync(folder)) {
    const pid = name.startsWith(`${path.basename(to)}.`) ? /\.(\d+)\.part(?:-journal)?$/.exec(name)?.[1] : undefined;
    if (pid !== undefined && !isOtherRunning(Number(pid))) rmSync(path.join(folder, name), { force: true });
  }
}

function refuseTarget(to: string, files: SourceFiles): void {
  const refused = (why: string, hint: string): ConfigError =>
    new ConfigError('backup_refused', `${to}: ${why}`, { hint });
  const folder = path.dirname(to);
  if (!existsSync(folder)) throw refused(`there is no folder ${folder}`, 'make it');
  const isOwn = Object.values(files).some((file) => path.resolve(file) === path.resolve(to));
  if (isOwn || (existsSync(to) && !isBackup(to))) throw refused('it is there, and is no backup', 'name another file');
}

function isBackup(file: string): boolean {
  try {
    const db = new Database(file, { readonly: true });
    try {
      return hasTable(db, ORIGIN_TABLE);
    } finally {
      db.close();
    }
  } catch {
    return false;
  }
}

export function hasTable(db: Database.Database, table: string): boolean {
  return db.prepare('SELECT 1 FROM sqlite_schema WHERE name = ?').get(table) !== undefined;
}

/** Opens a connection with a snapshot of the file as it is now. */
function freeze(file: string): { db: Database.Database } & Disposable {
  const missing = new ConfigError('warehouse_missing', `${file}: there is no warehouse yet`, {
    hint: 'content-sync backfill makes it; where there should be one, check `warehouse` in the config, and the folder that content-sync is started in',
  });
  if (!existsSync(file)) throw missing;
  const db = new Database(file, { timeout: LOCK_TIMEOUT_MS });
  try {
    db.pragma('query_only = ON');
    db.exec('BEGIN');
    if (stepsDone(db) === null) throw missing;
    return { db, [Symbol.dispose]: () => void db.close() };
  } catch (error) {
    db.close();
    throw databaseError(error, file);
  }
}

/** Verifies the copy, and adds the tables of a backup. */
function finishCopy(
  part: string,
  inbox: Database.Database | null,
  { source, version, takenAt, signal }: BackupRequest & { takenAt: number },
): void {
  const copy = new Database(part);
  try {
    // One file that can be read without a log.
    copy.pragma('journal_mode = DELETE');
    copy.pragma('synchronous = FULL');
    const damage = findDamage(copy);
    if (damage !== null) {
      throw new ConfigError('warehouse_corrupt', `the database is damaged: ${damage}`, {
        hint: 'take a backup from before, or move the file away and copy everything again: content-sync backfill',
      });
    }
    copy.transaction(() => {
      copy.exec(`CREATE TABLE ${ORIGIN_TABLE} ("format" INTEGER, "source" TEXT, "taken_at" TEXT, "content_sync" TEXT)`);
      const origin = [BACKUP_FORMAT, source, new Date(takenAt).toISOString(), version];
      copy.prepare(`INSERT INTO ${ORIGIN_TABLE} VALUES (?, ?, ?, ?)`).run(origin);
      if (inbox !== null) {
        const names = inbox.prepare('SELECT * FROM _sync_deliveries').columns();
        copy.exec(`CREATE TABLE ${DELIVERIES_TABLE} (${names.map(({ name }) => `"${name}"`).join(', ')})`);
        copyRows(inbox, '_sync_deliveries', copy, DELIVERIES_TABLE, signal);
      }
    })();
  } finally {
    copy.close();
  }
}

/** Copies rows into the columns of the same names, within the caller's transaction. */
export function copyRows(
  from: Database.Database,
  source: string,
  to: Database.Database,
  target: string,
  signal: AbortSignal,
): void {
  const rows = from.prepare(`SELECT * FROM ${source} ORDER BY "seq"`).raw();
  const names = rows.columns().map(({ name }) => `"${name}"`);
  const insert = to.prepare(`INSERT INTO ${target} (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`);
  for (const row of rows.iterate()) {
    signal.throwIfAborted();
    insert.run(row);
  }
}

/** Returns the first inconsistency that SQLite finds; null if there is none. */
export function findDamage(db: Database.Database): string | null {
  const found = db.prepare<[], string>('PRAGMA integrity_check(1)').pluck().all();
  return found.find((line) => line !== 'ok') ?? null;
}

/** Makes the names in a file's folder durable, on systems that support it. */
export function syncFolder(file: string): void {
  try {
    const folder = openSync(path.dirname(file), 'r');
    try {
      fsyncSync(folder);
    } finally {
      closeSync(folder);
    }
  } catch {
    // Windows cannot open folders.
  }
}
