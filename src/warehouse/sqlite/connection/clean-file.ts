import type { Database } from 'better-sqlite3';
import type { RetryWhileLocked } from './wait-for-lock.ts';

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
