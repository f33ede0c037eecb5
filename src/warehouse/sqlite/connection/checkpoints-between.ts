import type { Database } from 'better-sqlite3';

/** 4 MB, which is SQLite's own measure for pages of the usual size. */
const MANY_PAGES = 256;

/**
 * Returns what copies the WAL back into the database once it has many pages, to be called between two transactions; the
 * connection no longer does so by itself.
 *
 * By itself it would do so as the last step of a commit, and wait there for the disk: who asked for the commit would wait
 * too, although all of it is in the WAL. So does a large WAL: the disk takes as long for each page, but all pages that one
 * checkpoint copies are waited for at once, and nobody has so much else to do meanwhile.
 */
export function checkpointsBetween(db: Database): () => void {
  db.pragma('wal_autocheckpoint = 0');
  // Tells of the WAL and copies nothing.
  const look = db.prepare<[], { log: number }>('PRAGMA wal_checkpoint(NOOP)');
  return () => {
    try {
      if (db.open && (look.get()?.log ?? 0) >= MANY_PAGES) db.pragma('wal_checkpoint(PASSIVE)');
    } catch {
      // As SQLite does with errors of its own checkpoints: the next one tries again, and the WAL holds everything.
    }
  };
}
