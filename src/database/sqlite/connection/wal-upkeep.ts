import { statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import type { Database } from 'better-sqlite3';
import { messageOf, SyncError } from '../../../model/errors.ts';
import type { RetryWhileLocked } from './wait-for-lock.ts';

/** SQLite's automatic checkpoints keep the WAL at about this size. */
const LARGE_BYTES = 15 * 1_048_576;

/**
 * Copies a large WAL back into the database and truncates it. An automatic checkpoint never truncates, and there is none
 * while nothing is written: after a reader that held its transaction open for long, gigabytes would stay. Never throws:
 * a reader or a writer may still need the WAL, or the disk fail.
 */
export function truncateLargeWal(db: Database): void {
  // SQLite removes the WAL when the last connection closes, and makes none before the first write.
  const bytes = statSync(`${db.name}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  if (!db.open || bytes <= LARGE_BYTES) return;
  try {
    db.pragma('wal_checkpoint(TRUNCATE)');
  } catch {
    // The next call tries again.
  }
}

/**
 * Has the write-ahead log of a database on the disk, with all that was committed before: a warehouse commits without
 * waiting for that. What is no longer in the log is in the database itself, where SQLite has synced it before it began
 * the log anew. Throws `SyncError`.
 */
export async function syncLog(file: string): Promise<void> {
  try {
    await using log = await open(`${file}-wal`, 'r+');
    await log.datasync();
  } catch (error) {
    // Nothing was written yet, or the last one to close it has copied everything back.
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return;
    throw new SyncError('warehouse_io', `${file}-wal: ${messageOf(error)}`, {
      recovery: 'stop',
      hint: 'the disk does not take what was written: check the volume of the warehouse',
      cause: error,
    });
  }
}

/**
 * Rebuilds the file from what is in it, so that no free page and no rest of a page holds what was deleted, and empties
 * its log. Returns false while a reader still needs the log: then to be called again.
 */
export async function cleanFile(db: Database, retryWhileLocked: RetryWhileLocked): Promise<boolean> {
  await retryWhileLocked(() => db.exec('VACUUM'));
  return emptyLog(db, retryWhileLocked);
}

/** Folds the log back and truncates it; false while a reader still needs it. */
export function emptyLog(db: Database, retryWhileLocked: RetryWhileLocked): Promise<boolean> {
  return retryWhileLocked(() => {
    // 1 where somebody still reads from it.
    const busy = db.pragma('wal_checkpoint(TRUNCATE)', { simple: true });
    return busy === 0;
  });
}
