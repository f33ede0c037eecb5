import type { Database } from 'better-sqlite3';
import type { TableRows, TableShape } from '../../../model/table.ts';
import { stampedColumns } from '../../own-columns.ts';
import type { PageRows } from '../../warehouse.ts';
import {
  bound,
  deleteStatement,
  insertedColumns,
  multiRowInsert,
  upsertStatement,
  type MultiRowInsert,
} from './row-statements.ts';

/** Writes the rows, children and versions of a page. Runs inside the caller's transaction. */
export function createPageWriter(db: Database): (page: PageRows) => void {
  const writeVersions = createVersionWriter(db);
  const insertInto = (table: TableShape): MultiRowInsert =>
    multiRowInsert(db, insertedColumns(table).length, (rows) => upsertStatement(table, rows));

  return (page) => {
    const [root, ...children] = page.rows;
    if (root !== undefined) writeRoot(insertInto(root.table), root, page);
    const replaced = page.records.filter((record) => page.isRewrite === true || record.version > 1);
    for (const child of replaced.length === 0 ? [] : page.children) {
      const remove = db.prepare(deleteStatement(child));
      for (const { key } of replaced) remove.run(key);
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
