import type { Database } from 'better-sqlite3';
import type { ViewChange } from '../../view-dialect.ts';
import { VIEW_DIALECT } from './dialect.ts';

/**
 * Makes the views that are new or read otherwise. Views that stand on others find them by name: none but these is
 * touched. Inside the caller's transaction.
 */
export function makeViews(db: Database, views: readonly ViewChange[]): void {
  for (const { name, query, isChanged } of views) {
    if (!isChanged) continue;
    const view = VIEW_DIALECT.id(name);
    db.exec(`DROP VIEW IF EXISTS ${view}`);
    db.exec(`CREATE VIEW ${view} AS ${query}`);
  }
}

/** Takes views away from the names that tables need: they are made again under others. */
export function clearNames(db: Database, views: readonly ViewChange[]): void {
  const isView = db.prepare(`SELECT 1 FROM sqlite_schema WHERE "type" = 'view' AND "name" = ?`);
  for (const { former } of views) {
    if (former !== undefined && isView.get(former) !== undefined) db.exec(`DROP VIEW ${VIEW_DIALECT.id(former)}`);
  }
}

/** Empties those of the views that stand on what is gone: they can be read, and what people built on them too. */
export function emptyBrokenViews(db: Database, views: ReadonlyMap<string, readonly string[]>): void {
  for (const [name, columns] of views) {
    const view = VIEW_DIALECT.id(name);
    if (canBeRead(db, view)) continue;
    const list = columns.map((column) => `NULL AS ${VIEW_DIALECT.id(column)}`);
    db.exec(`DROP VIEW IF EXISTS ${view}`);
    db.exec(`CREATE VIEW ${view} AS SELECT ${list.join(', ')} WHERE 0`);
  }
}

function canBeRead(db: Database, view: string): boolean {
  try {
    db.prepare(`SELECT * FROM ${view}`);
    return true;
  } catch {
    return false;
  }
}
