// `warehouse backup`: copies a SQLite warehouse into one file, while other processes write to the warehouse.
import { closeSync, existsSync, fsyncSync, openSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { ConfigError } from '../../model/errors.ts';
import { missingWarehouse } from '../migrate.ts';
import { isOtherRunning } from '../state/leases.ts';
import { databaseError } from './connection/errors.ts';
import { stepsDone } from './connection/open-file.ts';

/** A process that is just starting holds the lock briefly. */
const LOCK_TIMEOUT_MS = 5_000;
const PAGES_PER_STEP = 1_000;

/**
 * Writes the warehouse as of now into a file, and returns its size in bytes. The file can be put in the place of the
 * warehouse; an earlier backup of the same name is replaced at the end. Throws `ConfigError`, such as `export_unwritable`;
 * then a file at the path is unchanged.
 */
export async function backUp(warehouse: string, to: string, signal: AbortSignal): Promise<number> {
  refuseTarget(to);
  removeLeftovers(to);
  const part = `${to}.${process.pid}.part`;
  const source = openSnapshot(warehouse);
  const progress = (): number => {
    signal.throwIfAborted();
    return PAGES_PER_STEP;
  };
  try {
    await source.backup(part, { progress });
    finishCopy(part);
    signal.throwIfAborted();
    renameSync(part, to);
    syncFolder(path.dirname(to));
    return statSync(to).size;
  } catch (error) {
    throw databaseError(error, to);
  } finally {
    source.close();
    for (const end of ['', '-journal', '-wal', '-shm']) rmSync(`${part}${end}`, { force: true });
  }
}

function refuseTarget(to: string): void {
  const folder = path.dirname(to);
  const refused = (why: string, hint: string): ConfigError =>
    new ConfigError('export_unwritable', `${to}: ${why}`, { hint });
  if (!existsSync(folder)) throw refused(`there is no folder ${folder}`, 'create the folder first');
  if (existsSync(to) && !isBackup(to)) {
    throw refused('a file with this name exists and is not a backup', 'name another file');
  }
}

/** A warehouse that was opened for writing is in WAL mode, a backup is not. */
function isBackup(file: string): boolean {
  try {
    const db = new Database(file, { readonly: true });
    try {
      return db.pragma('journal_mode', { simple: true }) !== 'wal' && stepsDone(db) !== null;
    } finally {
      db.close();
    }
  } catch {
    return false;
  }
}

/** Removes the partial files of killed backups to the same path, with the logs that SQLite keeps beside them. */
function removeLeftovers(to: string): void {
  const folder = path.dirname(to);
  for (const name of readdirSync(folder)) {
    const pid = name.startsWith(`${path.basename(to)}.`) ? /\.(\d+)\.part(?:-\w+)?$/.exec(name)?.[1] : undefined;
    if (pid !== undefined && !isOtherRunning(Number(pid))) rmSync(path.join(folder, name), { force: true });
  }
}

/** Opens a connection that sees the file as it is now, whatever others write later. */
function openSnapshot(file: string): Database.Database {
  if (!existsSync(file)) throw missingWarehouse(file);
  const db = new Database(file, { timeout: LOCK_TIMEOUT_MS });
  try {
    db.pragma('query_only = ON');
    db.exec('BEGIN');
    if (stepsDone(db) === null) throw missingWarehouse(file);
    return db;
  } catch (error) {
    db.close();
    throw databaseError(error, file);
  }
}

/** Makes the copy one file that can be read without a log, verifies it, and flushes it to the disk. */
function finishCopy(part: string): void {
  const copy = new Database(part);
  try {
    copy.pragma('synchronous = FULL');
    copy.pragma('journal_mode = DELETE');
    const lines = copy.prepare<[], string>('PRAGMA integrity_check(1)').pluck().all();
    const damage = lines.find((line) => line !== 'ok');
    if (damage !== undefined) {
      throw new ConfigError('warehouse_corrupt', `the database is damaged: ${damage}`, {
        hint: 'put a backup from before in its place, or move the file away and copy everything again: content-sync backfill',
      });
    }
  } finally {
    copy.close();
  }
  syncPath(part, 'r+');
}

/** Makes the new name of a file durable, on systems that support it. */
function syncFolder(folder: string): void {
  try {
    syncPath(folder, 'r');
  } catch {
    // Windows cannot open folders.
  }
}

function syncPath(target: string, flags: 'r' | 'r+'): void {
  const descriptor = openSync(target, flags);
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
