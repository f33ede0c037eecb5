import { existsSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { ConfigError } from '../../../model/errors.ts';
import type { BackupReport, BackupRequest } from '../../database.ts';
import { databaseError } from '../connection/errors.ts';
import { finishRestore, syncFolder } from '../connection/finish-restore.ts';

/** The files of one source. */
export interface SourceFiles {
  warehouse: string;
  inbox: string;
}

/** A process that is just starting holds a file for a moment. */
const BUSY_MS = 5_000;
/** Pages that are copied before the signal is looked at. */
const PAGES_AT_ONCE = 1_000;

/** Grows when a backup can no longer be read by a version that knows the one before. */
export const BACKUP_FORMAT = 2;

/**
 * A backup is the warehouse as a SQLite file, with two tables more: what it is a backup of, and the deliveries of the
 * inbox, if there is one.
 */
const TABLES = `CREATE TABLE "_sync_backup" ("format" INTEGER, "source" TEXT, "taken_at" TEXT, "content_sync" TEXT)`;
export const ABOUT = '_sync_backup';
export const DELIVERIES = '_sync_backup_deliveries';

/**
 * Writes warehouse and inbox as of one moment into one file, whatever goes on in them. Throws `ConfigError`, and leaves
 * a file that was there as it was, if that cannot be done.
 */
export async function backUp(files: SourceFiles, request: BackupRequest): Promise<BackupReport> {
  const { to, clock, signal } = request;
  finishRestore(files.inbox);
  if (!existsSync(files.warehouse)) {
    throw new ConfigError('warehouse_missing', `${files.warehouse}: there is no warehouse yet`, {
      hint: 'content-sync backfill makes it; where there should be one, check `warehouse` in the config, and the folder that content-sync is started in',
    });
  }
  refusePlace(to, files);
  removeLeftovers(to);
  const part = `${to}.${process.pid}.part`;
  try {
    const takenAt = clock.now();
    // The inbox's moment comes first: what was done by then stands in the warehouse, and what was not done waits, and is
    // at most read once more. The other way round a delivery would be done whose row is missing.
    using inbox = existsSync(files.inbox) ? freeze(files.inbox) : null;
    await copyWarehouse(files.warehouse, part, signal);
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

/** Removes what a backup to the same file has left that was killed. */
function removeLeftovers(to: string): void {
  const folder = path.dirname(to);
  for (const name of readdirSync(folder)) {
    const pid = name.startsWith(`${path.basename(to)}.`) ? /\.(\d+)\.part(?:-journal)?$/.exec(name)?.[1] : undefined;
    if (pid !== undefined && !isRunning(Number(pid))) rmSync(path.join(folder, name), { force: true });
  }
}

function isRunning(pid: number): boolean {
  try {
    return pid !== process.pid && process.kill(pid, 0);
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

/** A backup takes the place of a backup, and of nothing else. */
function refusePlace(to: string, files: SourceFiles): void {
  const refused = (why: string, hint: string): ConfigError =>
    new ConfigError('backup_refused', `${to}: ${why}`, { hint });
  const folder = path.dirname(to);
  if (!existsSync(folder)) throw refused(`there is no folder ${folder}`, 'make it');
  const isOwn = [files.warehouse, files.inbox].some((file) => path.resolve(file) === path.resolve(to));
  if (isOwn || !isReplaceable(to)) throw refused('it is there, and is no backup', 'name another file');
}

/** True if there is no file, an empty one, or a backup. */
function isReplaceable(file: string): boolean {
  if (!existsSync(file)) return true;
  if (!statSync(file).isFile()) return false;
  if (statSync(file).size === 0) return true;
  try {
    const db = new Database(file, { readonly: true });
    try {
      return db.prepare(`SELECT 1 FROM ${ABOUT}`).get() !== undefined;
    } finally {
      db.close();
    }
  } catch {
    return false;
  }
}

/** A connection that sees the file as it is now, whatever is written to it. */
function freeze(file: string): { db: Database.Database } & Disposable {
  const db = new Database(file, { timeout: BUSY_MS });
  try {
    db.pragma('query_only = ON');
    db.exec('BEGIN');
    if (db.prepare("SELECT 1 FROM sqlite_schema WHERE name = '_sync_migrations'").get() === undefined) {
      throw new ConfigError('warehouse_missing', `${file} holds no warehouse of content-sync`, {
        hint: 'check `warehouse` in the config',
      });
    }
    return { db, [Symbol.dispose]: () => void db.close() };
  } catch (error) {
    db.close();
    throw databaseError(error, file);
  }
}

async function copyWarehouse(file: string, to: string, signal: AbortSignal): Promise<void> {
  using warehouse = freeze(file);
  const progress = (): number => {
    signal.throwIfAborted();
    return PAGES_AT_ONCE;
  };
  await warehouse.db.backup(to, { progress });
}

/** Verifies that the copy is whole, and adds what a backup has besides. */
function finishCopy(
  part: string,
  inbox: Database.Database | null,
  { source, version, takenAt, signal }: BackupRequest & { takenAt: number },
): void {
  const copy = new Database(part);
  try {
    // One file, which can be read without a log beside it.
    copy.pragma('journal_mode = DELETE');
    copy.pragma('synchronous = FULL');
    const fault = damageOf(copy);
    if (fault !== null) {
      throw new ConfigError('warehouse_corrupt', `the database is damaged: ${fault}`, {
        hint: 'take a backup from before, or move the file away and copy everything again: content-sync backfill',
      });
    }
    copy.transaction(() => {
      copy.exec(TABLES);
      const about = [BACKUP_FORMAT, source, new Date(takenAt).toISOString(), version];
      copy.prepare(`INSERT INTO ${ABOUT} VALUES (?, ?, ?, ?)`).run(about);
      if (inbox !== null) copyDeliveries(inbox, copy, signal);
    })();
  } finally {
    copy.close();
  }
}

function copyDeliveries(inbox: Database.Database, copy: Database.Database, signal: AbortSignal): void {
  const rows = inbox.prepare('SELECT * FROM "_sync_deliveries" ORDER BY "seq"').raw();
  const names = rows.columns().map(({ name }) => `"${name}"`);
  copy.exec(`CREATE TABLE "${DELIVERIES}" (${names.join(', ')})`);
  const insert = copy.prepare(`INSERT INTO "${DELIVERIES}" VALUES (${names.map(() => '?').join(', ')})`);
  for (const row of rows.iterate()) {
    signal.throwIfAborted();
    insert.run(row);
  }
}

/** What SQLite finds first where pages, rows and indexes do not fit together; null if they do. */
export function damageOf(db: Database.Database): string | null {
  const faults = db.prepare<[], string>('PRAGMA integrity_check(1)').pluck().all();
  return faults.find((fault) => fault !== 'ok') ?? null;
}
