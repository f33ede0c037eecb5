// Writes one page of records with upserts of several rows each.
import type { Database } from 'better-sqlite3';
import type { Cell, Column, TableRows, TableShape } from '../../../model/table.ts';
import { emptiedColumns, stampedColumns } from '../../table-layout.ts';
import type { PageRows } from '../../warehouse.ts';
import { VIEW_DIALECT } from '../views/dialect.ts';

const { id } = VIEW_DIALECT;

/** Writes the rows, children and versions of a page. Runs inside the caller's transaction. */
export function writePage(db: Database, page: PageRows): void {
  const [root, ...children] = page.rows;
  if (root !== undefined) writeRoot(db, root, page);
  const replaced = page.records.filter((record) => page.isRewrite === true || record.version > 1);
  for (const child of replaced.length === 0 ? [] : page.children) {
    const remove = db.prepare(deleteStatement(child));
    for (const { key } of replaced) remove.run(key);
  }
  for (const { table, width, cells } of children) {
    insertRows(db, width, cells.map(toBindable), (rows) => insertStatement(table, rows));
  }
  writeVersions(db, page);
}

function writeRoot(db: Database, { table, width, cells }: TableRows, page: PageRows): void {
  const stamped = stampedColumns(table);
  const keys = table.key.length;
  const bindable: Bindable[] = [];
  let at = 0;
  for (const record of page.records) {
    for (let column = 0; column < keys; column += 1) bindable.push(toBindable(cells[at + column] ?? null));
    for (const { stamp } of stamped) bindable.push(stamp(record, page));
    for (let column = keys; column < width; column += 1) bindable.push(toBindable(cells[at + column] ?? null));
    at += width;
  }
  insertRows(db, width + stamped.length, bindable, (rows) => upsertStatement(table, rows));
}

/** SQLite takes at most 32,766 parameters; more than a few hundred per statement gain nothing. */
const MAX_PARAMETERS = 250;

/** Inserts rows of `width` cells, several per statement: a call per row costs as much as the row. */
function insertRows(
  db: Database,
  width: number,
  cells: readonly Bindable[],
  statement: (rows: number) => string,
): void {
  const batch = Math.max(1, Math.floor(MAX_PARAMETERS / width)) * width;
  const whole = cells.length - (cells.length % batch);
  if (whole > 0) {
    const insert = db.prepare(statement(batch / width));
    for (let at = 0; at < whole; at += batch) insert.run(cells.slice(at, at + batch));
  }
  if (whole < cells.length) db.prepare(statement((cells.length - whole) / width)).run(cells.slice(whole));
}

/** Stores the body of each written record as a version, and closes or deletes the version before by the history policy. */
function writeVersions(db: Database, { resource, history, requestedAt, records }: PageRows): void {
  if (history === 'none') return;
  const close = db.prepare(
    'UPDATE "_sync_versions" SET "valid_to" = ? WHERE "resource" = ? AND "id" = ? AND "version" = ?',
  );
  const drop = db.prepare('DELETE FROM "_sync_versions" WHERE "resource" = ? AND "id" = ?');
  for (const { key, version } of records) {
    if (version > 1 && history === 'all') close.run(requestedAt, resource, key, version - 1);
    if (version > 1 && history === 'latest') drop.run(resource, key);
  }
  // The body is bound as the bytes that the service sent: SQLite only has to know that they are text.
  const row = `(?, ?, ?, ?, 'upsert', ?, CAST(? AS TEXT))`;
  const cells = records.flatMap(({ key, version, hash, bytes }) => [resource, key, version, requestedAt, hash, bytes]);
  insertRows(
    db,
    6,
    cells,
    (rows) =>
      `INSERT INTO "_sync_versions" ("resource", "id", "version", "valid_from", "op", "hash", "body")
       VALUES ${repeated(row, rows)}`,
  );
}

/** The columns of a row as they are inserted. */
function insertedColumns(table: TableShape): string[] {
  return [...table.key, ...[...stampedColumns(table), ...table.columns].map(({ name }) => name)];
}

/** Clients of SQLite read no more than milliseconds. */
function placeholder({ type }: Column): string {
  return type === 'timestamp' ? `replace(substr(?, 1, 23), '.000', '')` : '?';
}

function insertStatement(table: TableShape, rows: number): string {
  const names = insertedColumns(table);
  const internal = names.slice(table.columns.length).map(() => '?');
  const row = `(${[...internal, ...table.columns.map(placeholder)].join(', ')})`;
  // The alias distinguishes a table that is named `excluded` from the upsert's `excluded`.
  return `INSERT INTO ${id(table.name)} AS "_there" (${names.map(id).join(', ')}) VALUES ${repeated(row, rows)}`;
}

function repeated(row: string, rows: number): string {
  return Array<string>(rows).fill(row).join(', ');
}

/** The insert of rows of a resource's own table, which overwrites existing rows. */
function upsertStatement(table: TableShape, rows: number): string {
  const names = insertedColumns(table).slice(table.key.length).map(id);
  const updates = names.map((name) => `${name} = excluded.${name}`);
  const emptied = emptiedColumns(table).map(({ name }) => `${id(name)} = NULL`);
  // The condition makes a late page harmless: the row that was requested later stays.
  return `${insertStatement(table, rows)}
    ON CONFLICT (${table.key.map(id).join(', ')}) DO UPDATE SET ${[...updates, ...emptied].join(', ')}
    WHERE excluded."_synced_at" >= "_there"."_synced_at"`;
}

/** Deletes the rows of one record, by its key. */
function deleteStatement(table: TableShape): string {
  return `DELETE FROM ${id(table.name)} WHERE ${id(table.key[0] ?? '')} = ?`;
}

type Bindable = string | number | bigint | Buffer | null;

function toBindable(cell: Cell): Bindable {
  return typeof cell === 'boolean' ? Number(cell) : cell;
}
