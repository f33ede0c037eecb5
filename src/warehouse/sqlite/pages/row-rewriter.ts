import type { Database, Statement } from 'better-sqlite3';
import type { Kysely } from 'kysely';
import type { TableRows } from '../../../model/table.ts';
import type { OwnTables } from '../../own-tables.ts';
import type { RowRewrite } from '../../warehouse.ts';
import { bound, deleteStatement, rewriteStatement, upsertStatement, type BoundCell } from './row-statements.ts';

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
