import type { Database } from 'better-sqlite3';
import { sql, type Kysely } from 'kysely';
import type { OwnTables } from '../../own-tables.ts';

interface Dependent {
  type: 'index' | 'trigger' | 'view';
  name: string;
  sql: string;
}

/**
 * Runs `alter` without the indexes of `tables` and without any view or trigger, and makes them again as they were:
 * SQLite drops no column that one of them names, and rewrites those that name a renamed one. People who read the
 * warehouse make such things. Runs inside the caller's transaction.
 */
export function withoutDependents(
  db: Database,
  own: Kysely<OwnTables>,
  tables: ReadonlySet<string>,
  alter: () => void,
): void {
  const dependents = db
    .prepare<[string], Dependent>(
      `SELECT "type", "name", "sql" FROM sqlite_schema WHERE "sql" IS NOT NULL AND
       ("type" IN ('view', 'trigger') OR ("type" = 'index' AND "tbl_name" IN (SELECT value FROM json_each(?)))) ORDER BY rowid`,
    )
    .all(JSON.stringify([...tables]));
  for (const { type, name } of dependents) {
    const kind = sql.raw(type.toUpperCase());
    // IF EXISTS, because the triggers of a view go with it.
    db.exec(sql`DROP ${kind} IF EXISTS ${sql.id(name)}`.compile(own).sql);
  }
  alter();
  for (const dependent of dependents) db.exec(dependent.sql);
}
