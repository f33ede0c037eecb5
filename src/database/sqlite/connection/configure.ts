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
  db.pragma(`cache_size = ${CACHE_SIZE}`);
  // Each multi-row insert keeps a journal of its own to undo it alone; in a file it costs more than the rows.
  db.pragma('temp_store = MEMORY');
  db.pragma('journal_size_limit = 67108864');
  // ANALYZE reads so many rows of each index: it holds the lock of writers.
  db.pragma('analysis_limit = 400');
  // Child rows come and go with their record in one transaction: to look each of them up would only cost.
  db.pragma('foreign_keys = OFF');
  db.function(NUMBER_TEXT, { deterministic: true }, String);
}

/** KiB (as `PRAGMA cache_size` has them: negative) of pages in memory: what a transaction of a page of records touches. */
export const CACHE_SIZE = -8_000;
