import type { Database, Statement } from 'better-sqlite3';
import type { Kysely } from 'kysely';
import type { TableRows } from '../../../model/table.ts';
import type { OwnTables } from '../../own-tables.ts';
import { perTable } from '../../per-table.ts';
import type { PageRows, WrittenRecord } from '../../warehouse.ts';
import { multiRowInsert, type MultiRowInsert } from './multi-row-insert.ts';
import { bound, deleteText, insertedColumns, insertText } from './row-statements.ts';
import { createVersionWriter } from './version-writer.ts';

/**
 * Writes the rows, children and versions of a page through statements that are compiled once per table shape and
 * kept. Runs inside the caller's transaction.
 */
export function createPageWriter(db: Database, own: Kysely<OwnTables>): (page: PageRows) => void {
  const writeVersions = createVersionWriter(db);
  const insertInto = perTable((table) => {
    const width = insertedColumns(table).length;
    return multiRowInsert(db, width, (rows) => insertText(own, table, rows));
  });
  const deleteFrom = perTable((table): Statement => db.prepare(deleteText(own, table)));

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
  insert(cells.length / width, (row, params, at) => {
    const from = row * width;
    const record: WrittenRecord | undefined = page.records[row];
    for (let cell = 0; cell < keys; cell += 1) params[at + cell] = bound(cells[from + cell]);
    let to = at + keys;
    params[to++] = record?.hash ?? null;
    params[to++] = record?.version ?? null;
    params[to++] = page.requestedAt;
    for (let cell = keys; cell < width; cell += 1) params[to++] = bound(cells[from + cell]);
  });
}

function writeChildren(insert: MultiRowInsert, { width, cells }: TableRows): void {
  insert(cells.length / width, (row, params, at) => {
    for (let cell = 0; cell < width; cell += 1) params[at + cell] = bound(cells[row * width + cell]);
  });
}
