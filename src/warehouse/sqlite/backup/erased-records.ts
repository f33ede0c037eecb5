import { existsSync } from 'node:fs';
import Database from 'better-sqlite3';
import type { ForgottenRow } from '../../operator-rows.ts';

const UNREADABLE = /^SQLITE_(?:CORRUPT|NOTADB)/;

/** The erased records that a warehouse knows of; null if it is damaged. */
export function erasedIn(db: Database.Database): ForgottenRow[] | null {
  try {
    const known = db.prepare("SELECT 1 FROM sqlite_schema WHERE name = '_sync_forgotten'").get();
    // One of a version from before records could be erased.
    return known === undefined ? [] : db.prepare<[], ForgottenRow>('SELECT * FROM _sync_forgotten').all();
  } catch (error) {
    if (error instanceof Error && 'code' in error && UNREADABLE.test(String(error.code))) return null;
    throw error;
  }
}

/** Folds a log that is left back into its file, which can be moved then. */
export function asOneFile(file: string): void {
  if (!existsSync(file)) return;
  const db = new Database(file);
  try {
    db.pragma('synchronous = FULL');
    db.pragma('journal_mode = DELETE');
  } finally {
    db.close();
  }
}
