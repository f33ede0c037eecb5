import type { Database } from 'better-sqlite3';

/** The SQL function that writes a number as JSON and JavaScript do; triggers of ours call it. */
export const NUMBER_TEXT = '_sync_number_text';

/** Makes a connection one of the warehouse, whichever thread it is of. */
export function configureWarehouse(db: Database): void {
  // Larger pages make wide rows cheaper; they only take effect on a file that is still empty.
  db.pragma('page_size = 16384');
  db.pragma('journal_mode = WAL');
  // A power cut may take the last pages, together with their checkpoint: they are fetched again.
  db.pragma('synchronous = NORMAL');
  db.pragma(`cache_size = ${cacheSize()}`);
  // Each multi-row insert keeps a journal of its own to undo it alone; in a file it costs more than the rows.
  db.pragma('temp_store = MEMORY');
  db.pragma('journal_size_limit = 67108864');
  // ANALYZE reads so many rows of each index: it holds the lock of writers.
  db.pragma('analysis_limit = 400');
  // Child rows come and go with their record in one transaction: to look each of them up would only cost.
  db.pragma('foreign_keys = OFF');
  db.function(NUMBER_TEXT, { deterministic: true }, String);
}

/** Bytes of pages that a connection keeps in memory: what one transaction of a page of records touches. */
const CACHE_KIB = 8_000;

/** The value of `PRAGMA cache_size`, which is KiB if it is negative. */
export function cacheSize(): number {
  return -CACHE_KIB;
}
