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
