import type { Database } from 'better-sqlite3';
import type { CompiledQuery, Kysely } from 'kysely';
import { ConfigError, messageOf } from '../../../model/errors.ts';
import type { ShapeChange } from '../../../model/table.ts';
import type { OwnTables } from '../../own-tables.ts';
import type { ViewChange } from '../../view-dialect.ts';
import {
  growthOutdated,
  InUse,
  type ShapeGrowth,
  tableExists,
  type TableRemoval,
  type TableStaging,
  type TableSwap,
} from '../../warehouse.ts';
import { VIEW_DIALECT } from '../views/dialect.ts';
import { addColumn, createDeletedIndex, createTable, widenColumn } from './ddl.ts';

// Each of these functions runs within the caller's transaction.

const id = (name: string): string => VIEW_DIALECT.id(name);

/** Creates new tables and views, and adds and widens columns of existing tables. */
export function growTables(db: Database, own: Kysely<OwnTables>, growth: ShapeGrowth): void {
  const { before, after, changes, views, claim } = growth;
  if (claim !== null && run(db, claim) === 0) throw growthOutdated();
  clearNames(db, views);
  const known = new Set(before?.tables.map((table) => table.name));
  for (const table of after.tables.filter(({ name }) => !known.has(name))) {
    const sameName = 'SELECT 1 FROM sqlite_schema WHERE "name" = ? COLLATE NOCASE';
    if (db.prepare(sameName).get(table.name) !== undefined) throw tableExists(table.name);
    run(db, createTable(own, table, after.tables));
    if (table.path.length === 0) run(db, createDeletedIndex(own, table));
  }
  const altered = changes.filter(({ table }) => known.has(table));
  for (const { table, column, from } of altered) {
    if (from === null && !hasColumn(db, table, column.name)) run(db, addColumn(own, table, column));
  }
  const widened = altered.filter(({ from }) => from !== null);
  if (widened.length > 0) widenColumns(db, own, widened);
  createViews(db, views);
}

function hasColumn(db: Database, table: string, name: string): boolean {
  return db.prepare('SELECT 1 FROM pragma_table_info(?) WHERE name = ? COLLATE NOCASE').get(table, name) !== undefined;
}

function run(db: Database, { sql, parameters }: CompiledQuery): number {
  return db.prepare(sql).run(...parameters).changes;
}

interface Dependent {
  type: 'index' | 'trigger' | 'view';
  name: string;
  tbl_name: string;
  sql: string;
}

/** Indexes and triggers of the tables `?` or, with `others`, also all views and triggers of the file. */
function dependents(db: Database, tables: readonly string[], others: string): Dependent[] {
  const text = `SELECT "type", "name", "tbl_name", "sql" FROM sqlite_schema WHERE "sql" IS NOT NULL AND
    (("type" IN ('index', 'trigger') AND "tbl_name" IN (SELECT value FROM json_each(?))) ${others}) ORDER BY rowid`;
  return db.prepare<[string], Dependent>(text).all(JSON.stringify(tables));
}

/**
 * Widens columns without the indexes of the changed tables and without any view or trigger, and creates those again:
 * SQLite drops no column that one of them names. Throws `InUse` if an index of an expression does not fit any more.
 */
function widenColumns(db: Database, own: Kysely<OwnTables>, changes: readonly ShapeChange[]): void {
  const dropped = dependents(db, [...new Set(changes.map(({ table }) => table))], `OR "type" IN ('view', 'trigger')`);
  // IF EXISTS, because the triggers of a view are dropped with it.
  for (const { type, name } of dropped) db.exec(`DROP ${type.toUpperCase()} IF EXISTS ${id(name)}`);
  for (const change of changes) for (const query of widenColumn(own, change)) run(db, query);
  for (const { type, name, tbl_name: table, sql } of dropped) {
    try {
      db.exec(sql);
    } catch (error) {
      const widened = changes.filter((change) => change.table === table);
      if (type !== 'index' || widened.length === 0) throw error;
      const columns = widened.map(({ column }) => ({ table, column: column.name, by: `index ${name}` }));
      throw new InUse(columns, [], error);
    }
  }
}

export function dropTables(db: Database, { tables, views }: TableRemoval): void {
  for (const table of tables) db.exec(`DROP TABLE IF EXISTS ${id(table)}`);
  emptyBrokenViews(db, views);
}

/** Creates empty tables under other names, by the statements that create them under their own. */
export function stageTables(db: Database, own: Kysely<OwnTables>, { shape, names }: TableStaging): void {
  for (const table of shape.tables) {
    const staged = names.get(table.name) ?? table.name;
    const statement = createTable(own, table, shape.tables).sql;
    db.exec(`DROP TABLE IF EXISTS ${id(staged)}`);
    db.exec(statement.replace(`CREATE TABLE ${id(table.name)}`, () => `CREATE TABLE ${id(staged)}`));
  }
}

/** Replaces tables by the staged ones. */
export function swapTables(db: Database, own: Kysely<OwnTables>, swap: TableSwap): void {
  const { shape, names, dropped, standing, views, claim } = swap;
  if (run(db, claim) === 0) throw growthOutdated();
  const belongings = dependents(db, dropped, '');
  clearNames(db, views);
  // Views find tables by name: in this mode SQLite neither rewrites nor checks them while there is none.
  db.pragma('legacy_alter_table = ON');
  try {
    for (const table of dropped.toReversed()) db.exec(`DROP TABLE IF EXISTS ${id(table)}`);
    for (const [name, staged] of names) db.exec(`ALTER TABLE ${id(staged)} RENAME TO ${id(name)}`);
  } finally {
    db.pragma('legacy_alter_table = OFF');
  }
  const [root] = shape.tables;
  if (root !== undefined) db.exec(createDeletedIndex(own, root).sql);
  createViews(db, views);
  emptyBrokenViews(db, standing);
  for (const belonging of belongings) createAgain(db, belonging);
}

function createAgain(db: Database, { type, name, sql }: Dependent): void {
  try {
    if (db.prepare('SELECT 1 FROM sqlite_schema WHERE "name" = ?').get(name) === undefined) db.exec(sql);
  } catch (error) {
    // A managed index on a removed column is not wanted any more.
    if (name.startsWith('_sync_')) return;
    throw new ConfigError(
      'table_in_use',
      `a table is to be made anew, and the ${type} ${name} of others cannot stand on it: ${messageOf(error)}`,
      {
        hint: 'drop it, run the same command again, and make it again on the columns that are there then',
        cause: error,
      },
    );
  }
}

/** Creates the views that are new or changed. Views on other views find them by name, and are not touched. */
function createViews(db: Database, views: readonly ViewChange[]): void {
  for (const { name, query, isChanged } of views) if (isChanged) replaceView(db, name, query);
}

function replaceView(db: Database, name: string, query: string): void {
  db.exec(`DROP VIEW IF EXISTS ${id(name)}`);
  db.exec(`CREATE VIEW ${id(name)} AS ${query}`);
}

/** Drops views whose names tables need: they are created again under other names. */
function clearNames(db: Database, views: readonly ViewChange[]): void {
  const isView = db.prepare(`SELECT 1 FROM sqlite_schema WHERE "type" = 'view' AND "name" = ?`);
  for (const { former } of views) {
    if (former !== undefined && isView.get(former) !== undefined) db.exec(`DROP VIEW ${id(former)}`);
  }
}

/** Replaces views on tables that no longer exist by empty ones, so that external views on them stay readable. */
function emptyBrokenViews(db: Database, views: ReadonlyMap<string, readonly string[]>): void {
  for (const [name, columns] of views) {
    try {
      db.prepare(`SELECT * FROM ${id(name)}`);
    } catch {
      replaceView(db, name, `SELECT ${columns.map((column) => `NULL AS ${id(column)}`).join(', ')} WHERE 0`);
    }
  }
}
