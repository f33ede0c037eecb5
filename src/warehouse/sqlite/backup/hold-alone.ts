import { existsSync, renameSync, rmSync } from 'node:fs';
import Database from 'better-sqlite3';
import { SyncError } from '../../../model/errors.ts';
import { isBusy } from '../connection/errors.ts';

/** A file that nobody else can open until it is released. */
export interface HeldFile {
  /** Null if there is no file, or none that is a whole database. */
  db: Database.Database | null;
  release(): void;
}

const NOBODY: HeldFile = { db: null, release: () => undefined };

/**
 * Proves that no other connection has a database file open, by anybody, and keeps it so. Its log is folded back, so that
 * the file alone is all of it. A file that is damaged is held by nobody: it is to be replaced for that very reason.
 * Throws `warehouse_in_use`.
 */
export function holdAlone(file: string): HeldFile {
  if (!existsSync(file)) {
    putLogAside(file);
    return NOBODY;
  }
  const db = new Database(file, { timeout: 0 });
  try {
    // Only the one who has the file for himself can leave the log.
    if (db.pragma('journal_mode = DELETE', { simple: true }) !== 'delete') throw inUse(file);
    db.pragma('locking_mode = EXCLUSIVE');
    db.exec('BEGIN EXCLUSIVE');
    return { db, release: () => void db.close() };
  } catch (error) {
    db.close();
    if (isBusy(error)) throw inUse(file, error);
    if (!isDamaged(error)) throw error;
    putLogAside(file);
    return NOBODY;
  }
}

/** A log would be taken for that of the file which is put beside it. */
function putLogAside(file: string): void {
  for (const end of ['-wal', '-journal']) if (existsSync(file + end)) renameSync(file + end, `${file}${end}.left`);
  rmSync(`${file}-shm`, { force: true });
}

function isDamaged(error: unknown): boolean {
  return error instanceof Error && 'code' in error && /^SQLITE_(?:CORRUPT|NOTADB)/.test(String(error.code));
}

function inUse(file: string, cause?: unknown): SyncError {
  return new SyncError('warehouse_in_use', `${file} is in use by another program`, {
    recovery: 'stop',
    hint: 'stop content-sync (serve, sync) and whatever reads the file, then run the same command again',
    cause,
  });
}
