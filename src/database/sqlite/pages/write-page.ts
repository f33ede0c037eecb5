// Writes one page of records with upserts of several rows each.
import type { Database } from 'better-sqlite3';
import type { Cell, TableShape } from '../../../model/table.ts';
import { EXISTING_ROW, insertedColumns, overwriteClause, cellsToInsert } from '../../table-layout.ts';
import type { PageRows } from '../../warehouse.ts';
import { VIEW_DIALECT } from '../views/dialect.ts';

const { id } = VIEW_DIALECT;

/** Writes the rows, children and versions of a page. Runs inside the caller's transaction. */
export function writePage(db: Database, page: PageRows): void {
  const [root, ...children] = page.rows;
  if (root !== undefined) {
    const cells = cellsToInsert(root, page).map(toBindable);
    const { table } = root;
    insertRows(
      db,
      insertedColumns(table).length,
      cells,
      (rows) => insertStatement(table, rows) + overwriteClause(table, id),
    );
  }
  // The child rows of these records are replaced. New records have none, and rewritten ones may be of version 1.
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
  /** Cells that fill batches; the rest needs a statement with fewer rows. */
  const inBatches = cells.length - (cells.length % batch);
  if (inBatches > 0) {
    const insert = db.prepare(statement(batch / width));
    for (let at = 0; at < inBatches; at += batch) insert.run(cells.slice(at, at + batch));
  }
  if (inBatches < cells.length) db.prepare(statement((cells.length - inBatches) / width)).run(cells.slice(inBatches));
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

function insertStatement(table: TableShape, rows: number): string {
  const columns = insertedColumns(table);
  const internal = columns.length - table.columns.length;
  // Clients of SQLite read no more than milliseconds.
  const cells = columns.map(({ type }, at) =>
    at >= internal && type === 'timestamp' ? `replace(substr(?, 1, 23), '.000', '')` : '?',
  );
  const names = columns.map(({ name }) => id(name)).join(', ');
  return `INSERT INTO ${id(table.name)} AS ${EXISTING_ROW} (${names}) VALUES ${repeated(`(${cells.join(', ')})`, rows)}`;
}

function repeated(row: string, rows: number): string {
  return Array<string>(rows).fill(row).join(', ');
}

/** Deletes the rows of one record, by its key. */
function deleteStatement(table: TableShape): string {
  return `DELETE FROM ${id(table.name)} WHERE ${id(table.key[0] ?? '')} = ?`;
}

type Bindable = string | number | bigint | Buffer | null;

function toBindable(cell: Cell): Bindable {
  return typeof cell === 'boolean' ? Number(cell) : cell;
}
