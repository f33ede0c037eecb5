import type { Database, Statement } from 'better-sqlite3';
import type { Kysely } from 'kysely';
import type { TableRows } from '../../../model/table.ts';
import { stampedColumns } from '../../own-columns.ts';
import type { OwnTables } from '../../own-tables.ts';
import { perTable } from '../../per-table.ts';
import type { PageRows, RowRewrite } from '../../warehouse.ts';
import {
  multiRowInsert,
  type MultiRowInsert,
  bound,
  deleteStatement,
  insertedColumns,
  rewriteStatement,
  upsertStatement,
  type BoundCell,
} from './row-statements.ts';

/**
 * Writes the rows, children and versions of a page through statements that are compiled once per table shape and
 * kept. Runs inside the caller's transaction.
 */
export function createPageWriter(db: Database, own: Kysely<OwnTables>): (page: PageRows) => void {
  const writeVersions = createVersionWriter(db);
  const insertInto = perTable((table) => {
    const width = insertedColumns(table).length;
    return multiRowInsert(db, width, (rows) => upsertStatement(own, table, rows));
  });
  const deleteFrom = perTable((table): Statement => db.prepare(deleteStatement(own, table)));

  return (page) => {
    const [root, ...children] = page.rows;
    if (root !== undefined) writeRoot(insertInto(root.table), root, page);
    const replaced = page.records.filter((record) => record.version > 1);
    for (const child of replaced.length === 0 ? [] : page.children) {
      for (const { key } of replaced) deleteFrom(child).run(key);
    }
    for (const child of children) writeChildren(insertInto(child.table), child);
    writeVersions(page);
  };
}

function writeRoot(insert: MultiRowInsert, { table, width, cells }: TableRows, page: PageRows): void {
  const keys = table.key.length;
  const stamped = stampedColumns(table);
  insert(cells.length / width, (row, params, at) => {
    const from = row * width;
    const record = page.records[row];
    if (record === undefined) throw new Error('a row without its record');
    for (let cell = 0; cell < keys; cell += 1) params[at + cell] = bound(cells[from + cell]);
    let to = at + keys;
    for (const { stamp } of stamped) params[to++] = stamp(record, page);
    for (let cell = keys; cell < width; cell += 1) params[to++] = bound(cells[from + cell]);
  });
}

function writeChildren(insert: MultiRowInsert, { width, cells }: TableRows): void {
  insert(cells.length / width, (row, params, at) => {
    for (let cell = 0; cell < width; cell += 1) params[at + cell] = bound(cells[row * width + cell]);
  });
}

/** Values that differ from row to row; the rest of a version's columns are the same for all. */
const WIDTH = 6;
/** The body comes as the bytes that it was sent as: SQLite only has to know that they are text. */
const ROW = "(?,?,?,?,'upsert',?,CAST(? AS TEXT))";

/** Remembers the source of every written record and closes or drops the one before, as the history policy says. */
function createVersionWriter(db: Database): (page: PageRows) => void {
  const insert = multiRowInsert(
    db,
    WIDTH,
    (rows) =>
      `INSERT INTO "_sync_versions" ("resource", "id", "version", "valid_from", "op", "hash", "body")
       VALUES ${Array(rows).fill(ROW).join(',')}`,
  );
  const close = db.prepare(
    'UPDATE "_sync_versions" SET "valid_to" = ? WHERE "resource" = ? AND "id" = ? AND "version" = ?',
  );
  const drop = db.prepare('DELETE FROM "_sync_versions" WHERE "resource" = ? AND "id" = ?');

  return ({ resource, history, requestedAt, records }) => {
    if (history === 'none') return;
    for (const { key, version } of records) {
      if (version === 1) continue;
      if (history === 'all') close.run(requestedAt, resource, key, version - 1);
      else drop.run(resource, key);
    }
    insert(records.length, (row, params, at) => {
      const record = records[row];
      if (record === undefined) return;
      params[at] = resource;
      params[at + 1] = record.key;
      params[at + 2] = record.version;
      params[at + 3] = requestedAt;
      params[at + 4] = record.hash;
      params[at + 5] = record.bytes;
    });
  };
}

/** Writes records anew that have their rows already; what is gone by now stays gone. Inside the caller's transaction. */
export function rewriteRows(db: Database, own: Kysely<OwnTables>, { rows, versions, children }: RowRewrite): void {
  const [root, ...lists] = rows;
  if (root === undefined) return;
  const there = updateRoot(db, own, root, versions);
  for (const table of children) {
    const statement = db.prepare(deleteStatement(own, table));
    for (const key of there) statement.run(key);
  }
  for (const list of lists) {
    const statement = db.prepare(upsertStatement(own, list.table, 1));
    eachRow(list, (row) => there.has(row[0]) && statement.run(row));
  }
}

/** The keys of the records that were there in that version. */
function updateRoot(
  db: Database,
  own: Kysely<OwnTables>,
  rows: TableRows,
  versions: RowRewrite['versions'],
): Set<BoundCell | undefined> {
  const statement: Statement = db.prepare(rewriteStatement(own, rows.table));
  const there = new Set<BoundCell | undefined>();
  eachRow(rows, ([key, ...cells]) => {
    if (statement.run(...cells, key, versions.get(String(key))).changes > 0) there.add(key);
  });
  return there;
}

function eachRow({ cells, width }: TableRows, use: (row: BoundCell[]) => void): void {
  for (let at = 0; at < cells.length; at += width) use(cells.slice(at, at + width).map(bound));
}
