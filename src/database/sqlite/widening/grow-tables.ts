import type { Database } from 'better-sqlite3';
import { sql, type CompiledQuery, type Kysely } from 'kysely';
import { ConfigError } from '../../../model/errors.ts';
import type { ShapeChange } from '../../../model/table.ts';
import type { OwnTables } from '../../own-tables.ts';
import { InUse, growthOutdated, type ShapeGrowth } from '../../warehouse.ts';
import { clearNames, makeViews } from '../views/make-views.ts';
import { addColumn, createDeletedIndex, createTable, widenColumn } from './ddl.ts';

/** Makes the tables that are new, and adds and widens columns of those that are not. Inside the caller's transaction. */
export function growTables(db: Database, own: Kysely<OwnTables>, growth: ShapeGrowth): void {
  const { before, after, changes, views, claim } = growth;
  if (claim !== null && db.prepare(claim.sql).run(...claim.parameters).changes === 0) throw growthOutdated();
  clearNames(db, views);
  const known = new Set(before?.tables.map((table) => table.name));
  for (const table of after.tables.filter(({ name }) => !known.has(name))) {
    refuseForeignTable(db, table.name);
    run(db, createTable(own, table, after.tables));
    if (table.path.length === 0) run(db, createDeletedIndex(own, table));
  }
  const altered = changes.filter(({ table }) => known.has(table));
  for (const { table, column, from } of altered) {
    if (from === null && !hasColumn(db, table, column.name)) run(db, addColumn(own, table, column));
  }
  const widened = altered.filter(({ from }) => from !== null);
  if (widened.length > 0) widenColumns(db, own, widened);
  makeViews(db, views);
}

function widenColumns(db: Database, own: Kysely<OwnTables>, changes: readonly ShapeChange[]): void {
  withoutDependents(db, own, changes, () => {
    for (const change of changes) widenColumn(own, change).forEach((query) => run(db, query));
  });
}

/** A table that somebody else made under this name is never written to. */
function refuseForeignTable(db: Database, name: string): void {
  const there = db.prepare('SELECT 1 FROM sqlite_schema WHERE "name" = ? COLLATE NOCASE').get(name);
  if (there === undefined) return;
  throw new ConfigError('table_exists', `the warehouse has a table or view "${name}" that content-sync did not make`, {
    hint: 'rename it, or point `warehouse` at a database of its own',
  });
}

function hasColumn(db: Database, table: string, name: string): boolean {
  return db.prepare('SELECT 1 FROM pragma_table_info(?) WHERE name = ? COLLATE NOCASE').get(table, name) !== undefined;
}

function run(db: Database, query: CompiledQuery): void {
  db.prepare(query.sql).run(...query.parameters);
}

interface Dependent {
  type: 'index' | 'trigger' | 'view';
  name: string;
  tbl_name: string;
  sql: string;
}

/**
 * Runs `alter` without the indexes of the changed tables and without any view or trigger, and makes them again as they were:
 * SQLite drops no column that one of them names, and rewrites those that name a renamed one. People who read the
 * warehouse make such things. Runs inside the caller's transaction. Throws `InUse`.
 */
function withoutDependents(
  db: Database,
  own: Kysely<OwnTables>,
  changes: readonly ShapeChange[],
  alter: () => void,
): void {
  const tables = new Set(changes.map(({ table }) => table));
  const dependents = db
    .prepare<[string], Dependent>(
      `SELECT "type", "name", "tbl_name", "sql" FROM sqlite_schema WHERE "sql" IS NOT NULL AND
       ("type" IN ('view', 'trigger') OR ("type" = 'index' AND "tbl_name" IN (SELECT value FROM json_each(?)))) ORDER BY rowid`,
    )
    .all(JSON.stringify([...tables]));
  for (const { type, name } of dependents) {
    const kind = sql.raw(type.toUpperCase());
    // IF EXISTS, because the triggers of a view go with it.
    db.exec(sql`DROP ${kind} IF EXISTS ${sql.id(name)}`.compile(own).sql);
  }
  alter();
  for (const dependent of dependents) makeAgain(db, dependent, changes);
}

/** Throws `InUse` if it cannot stand on the wider columns: an index of an expression, whose value is none any more. */
function makeAgain(
  db: Database,
  { type, name, tbl_name: table, sql: statement }: Dependent,
  changes: readonly ShapeChange[],
): void {
  try {
    db.exec(statement);
  } catch (error) {
    const widened = changes.filter((change) => change.table === table);
    if (type !== 'index' || widened.length === 0) throw error;
    throw new InUse(
      widened.map(({ column }) => ({ table, column: column.name, by: `index ${name}` })),
      [],
      error,
    );
  }
}
