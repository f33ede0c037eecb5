// Creates, widens, replaces and drops the tables of a resource, within the caller's transaction. SQLite changes no column that
// a view, index or trigger names: these are dropped before, and created again afterwards.
import type { Database } from 'better-sqlite3';
import type { CompiledQuery } from 'kysely';
import { ConfigError, messageOf } from '../../../model/errors.ts';
import type { Column, ShapeChange, TableShape } from '../../../model/table.ts';
import type { ColumnType } from '../../../model/vocabulary.ts';
import { columnDefinitions } from '../../table-layout.ts';
import type { ViewChange } from '../../view-dialect.ts';
import {
  growthOutdated,
  type ShapeGrowth,
  tableExists,
  TableInUseError,
  type TableRemoval,
  type TableStaging,
  type TableSwap,
} from '../../warehouse.ts';
import { NUMBER_TEXT } from '../connection/open-file.ts';
import { VIEW_DIALECT } from '../views/dialect.ts';

const { id } = VIEW_DIALECT;

/** Creates new tables and views, and adds and widens columns of existing tables. */
export function growTables(db: Database, growth: ShapeGrowth): void {
  const { before, after, changes, views, claim } = growth;
  // The claim changes no row if tables have changed since this was planned.
  if (claim !== null && run(db, claim) === 0) throw growthOutdated();
  dropFormerViews(db, views);
  const existing = new Set(before?.tables.map((table) => table.name));
  for (const table of after.tables.filter(({ name }) => !existing.has(name))) {
    const sameName = 'SELECT 1 FROM sqlite_schema WHERE "name" = ? COLLATE NOCASE';
    if (db.prepare(sameName).get(table.name) !== undefined) throw tableExists(table.name);
    db.exec(createTable(table.name, table, after.tables));
    if (table.path.length === 0) db.exec(createDeletedIndex(table));
  }
  const altered = changes.filter(({ table }) => existing.has(table));
  for (const { table, column, from } of altered) {
    if (from !== null || hasColumn(db, table, column.name)) continue;
    db.exec(`ALTER TABLE ${id(table)} ADD COLUMN ${columnDefinition(column)}`);
  }
  const widened = altered.filter(({ from }) => from !== null);
  if (widened.length > 0) widenColumns(db, widened);
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

/** Returns the indexes and triggers of the tables. `others` is a further condition for more of them. */
function readDependents(db: Database, tables: readonly string[], others: string): Dependent[] {
  const query = `SELECT "type", "name", "tbl_name", "sql" FROM sqlite_schema WHERE "sql" IS NOT NULL AND
    (("type" IN ('index', 'trigger') AND "tbl_name" IN (SELECT value FROM json_each(?))) ${others}) ORDER BY rowid`;
  return db.prepare<[string], Dependent>(query).all(JSON.stringify(tables));
}

/**
 * Drops all views and triggers of the file, and the indexes of the changed tables; widens the columns; and creates the dropped
 * objects again. Throws `TableInUseError` if the expression of an index no longer fits the column.
 */
function widenColumns(db: Database, changes: readonly ShapeChange[]): void {
  const tables = [...new Set(changes.map(({ table }) => table))];
  const dropped = readDependents(db, tables, `OR "type" IN ('view', 'trigger')`);
  // IF EXISTS, because a dropped view takes its triggers with it.
  for (const { type, name } of dropped) db.exec(`DROP ${type.toUpperCase()} IF EXISTS ${id(name)}`);
  for (const change of changes) for (const statement of widenColumn(change)) db.exec(statement);
  for (const { type, name, tbl_name: table, sql } of dropped) {
    try {
      db.exec(sql);
    } catch (error) {
      const widened = changes.filter((change) => change.table === table);
      if (type !== 'index' || widened.length === 0) throw error;
      const columns = widened.map(({ column }) => ({ table, column: column.name, by: `index ${name}` }));
      throw new TableInUseError(columns, [], error);
    }
  }
}

export function dropTables(db: Database, { tables, views }: TableRemoval): void {
  for (const table of tables) db.exec(`DROP TABLE IF EXISTS ${id(table)}`);
  emptyBrokenViews(db, views);
}

/** Creates empty tables under temporary names. Their constraints already have the names for after the swap. */
export function stageTables(db: Database, { shape, names }: TableStaging): void {
  for (const table of shape.tables) {
    const staged = names.get(table.name) ?? table.name;
    db.exec(`DROP TABLE IF EXISTS ${id(staged)}`);
    db.exec(createTable(staged, table, shape.tables));
  }
}

/** Replaces tables by the staged ones. */
export function swapTables(db: Database, swap: TableSwap): void {
  const { shape, names, dropped, existingViews, views, claim } = swap;
  if (run(db, claim) === 0) throw growthOutdated();
  const indexesAndTriggers = readDependents(db, dropped, '');
  dropFormerViews(db, views);
  // In this mode, SQLite neither rewrites nor checks the views whose table is missing meanwhile.
  db.pragma('legacy_alter_table = ON');
  try {
    for (const table of dropped.toReversed()) db.exec(`DROP TABLE IF EXISTS ${id(table)}`);
    for (const [name, staged] of names) db.exec(`ALTER TABLE ${id(staged)} RENAME TO ${id(name)}`);
  } finally {
    db.pragma('legacy_alter_table = OFF');
  }
  const [root] = shape.tables;
  if (root !== undefined) db.exec(createDeletedIndex(root));
  createViews(db, views);
  emptyBrokenViews(db, existingViews);
  for (const dependent of indexesAndTriggers) createAgain(db, dependent);
}

function createAgain(db: Database, { type, name, sql }: Dependent): void {
  try {
    if (db.prepare('SELECT 1 FROM sqlite_schema WHERE "name" = ?').get(name) === undefined) db.exec(sql);
  } catch (error) {
    // A managed index may be on a column that was removed: it is no longer needed.
    if (name.startsWith('_sync_')) return;
    const message = `a table must be replaced, and the external ${type} ${name} does not fit the new one: ${messageOf(error)}`;
    const hint = 'drop it, run the same command again, and create it again on the columns of the new table';
    throw new ConfigError('table_in_use', message, { hint, cause: error });
  }
}

/** Creates the views that are new or changed. Other views that select from them find them by name. */
function createViews(db: Database, views: readonly ViewChange[]): void {
  for (const { name, query, isChanged } of views) if (isChanged) replaceView(db, name, query);
}

function replaceView(db: Database, name: string, query: string): void {
  db.exec(`DROP VIEW IF EXISTS ${id(name)}`);
  db.exec(`CREATE VIEW ${id(name)} AS ${query}`);
}

/** Drops views whose names tables need: `createViews` creates them under other names. */
function dropFormerViews(db: Database, views: readonly ViewChange[]): void {
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

/**
 * Declared types, chosen by what BI clients read correctly. NUMERIC and JSON are in text columns, because SQLite's
 * numeric affinity would turn long decimals into doubles and the JSON text `5` into the integer.
 */
const DECLARED_TYPES: Readonly<Record<ColumnType, string>> = {
  boolean: 'BOOLEAN',
  integer: 'BIGINT',
  double: 'DOUBLE',
  numeric: 'TEXT',
  date: 'DATE',
  timestamp: 'TIMESTAMP',
  text: 'TEXT',
  json: 'TEXT',
};

/** `tables` are all of the resource. The foreign key shows readers how to join; the writing connection does not check it. */
function createTable(name: string, table: TableShape, tables: readonly TableShape[]): string {
  const columns = columnDefinitions(table, {
    quote: id,
    keyType: 'TEXT',
    types: DECLARED_TYPES,
    columnType: ({ type }) => DECLARED_TYPES[type],
  });
  const parts = [...columns, `PRIMARY KEY (${list(table.key)})`];
  const parent = parentTable(table, tables);
  if (parent !== null) {
    parts.push(`CONSTRAINT ${id(`${PARENT_KEY}${table.name}`)} FOREIGN KEY (${list(table.key.slice(0, -1))})
      REFERENCES ${id(parent.name)} (${list(parent.key)}) DEFERRABLE INITIALLY DEFERRED`);
  }
  return `CREATE TABLE ${id(name)} (${parts.join(', ')})`;
}

/** Returns the table of the parent rows of a child table; null for a resource's own table. */
function parentTable(table: TableShape, tables: readonly TableShape[]): TableShape | null {
  const isParent = ({ path, key }: TableShape): boolean =>
    path.length < table.path.length &&
    key.length === table.key.length - 1 &&
    path.every((part, at) => part === table.path[at]);
  return tables.find(isParent) ?? null;
}

/** The prefix of foreign keys from a child table to its parent. */
const PARENT_KEY = '_sync_parent_';

function list(columns: readonly string[]): string {
  return columns.map(id).join(', ');
}

function columnDefinition({ name, type }: Column): string {
  return `${id(name)} ${DECLARED_TYPES[type]}`;
}

/** Deleted rows are counted often. Live rows are not in the index, so they cost nothing. */
function createDeletedIndex({ name }: TableShape): string {
  return `CREATE INDEX IF NOT EXISTS ${id(`_sync_deleted_${name}`)} ON ${id(name)} ("_deleted_at")
    WHERE "_deleted_at" IS NOT NULL`;
}

/** Returns the statements that widen a column. SQLite cannot alter a type, so the values move to a new column. */
function widenColumn({ table: tableName, column, from }: ShapeChange): string[] {
  if (from === null) return [];
  const [table, name, before] = [id(tableName), id(column.name), id(`${column.name}__was`)];
  if (DECLARED_TYPES[from] === DECLARED_TYPES[column.type]) {
    return [`UPDATE ${table} SET ${name} = ${converted(name, from, column.type)} WHERE ${name} IS NOT NULL`];
  }
  return [
    `ALTER TABLE ${table} RENAME COLUMN ${name} TO ${before}`,
    `ALTER TABLE ${table} ADD COLUMN ${columnDefinition(column)}`,
    `UPDATE ${table} SET ${name} = ${converted(before, from, column.type)} WHERE ${before} IS NOT NULL`,
    `ALTER TABLE ${table} DROP COLUMN ${before}`,
  ];
}

/** Converts a stored value to the wider type: exactly, except for the pairs that `rows/evolve-shape.ts` names. */
function converted(value: string, from: ColumnType, to: ColumnType): string {
  if (from === 'boolean') return `CASE WHEN ${value} THEN 'true' ELSE 'false' END`;
  if (to === 'double') return `CAST(${value} AS REAL)`;
  if (to === 'timestamp') return `${value} || ' 00:00:00'`;
  if (from === 'double') return `${NUMBER_TEXT}(${value})`;
  const isText = from === 'text' || from === 'date' || from === 'timestamp';
  return to === 'json' && isText ? `json_quote(${value})` : `CAST(${value} AS TEXT)`;
}
