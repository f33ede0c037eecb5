import type { Database, Statement } from 'better-sqlite3';
import { sql, type Kysely } from 'kysely';
import type { TableRows, TableShape } from '../../../model/table.ts';
import type { OwnTables } from '../../own-tables.ts';
import type { RowRewrite } from '../../warehouse.ts';
import { bound, deleteText, insertText, type BoundCell } from './row-statements.ts';

/** Writes records anew that have their rows already; what is gone by now stays gone. Inside the caller's transaction. */
export function rewriteRows(db: Database, own: Kysely<OwnTables>, { rows, versions, children }: RowRewrite): void {
  const [root, ...lists] = rows;
  if (root === undefined) return;
  const there = updateRoot(db, own, root, versions);
  for (const table of children) {
    const statement = db.prepare(deleteText(own, table));
    for (const key of there) statement.run(key);
  }
  for (const list of lists) {
    const statement = db.prepare(insertText(own, list.table, 1));
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
  const statement: Statement = db.prepare(updateText(own, rows.table));
  const there = new Set<BoundCell | undefined>();
  eachRow(rows, ([key, ...cells]) => {
    if (statement.run(...cells, key, versions.get(String(key))).changes > 0) there.add(key);
  });
  return there;
}

function eachRow({ cells, width }: TableRows, use: (row: BoundCell[]) => void): void {
  for (let at = 0; at < cells.length; at += width) use(cells.slice(at, at + width).map(bound));
}

function updateText(own: Kysely<OwnTables>, table: TableShape): string {
  const key = sql.id(table.key[0] ?? '');
  const sets = table.columns.map(({ name }) => sql`${sql.id(name)} = ${sql.val(null)}`);
  const all = sets.length === 0 ? [sql`${key} = ${key}`] : sets;
  return sql`UPDATE ${sql.id(table.name)} SET ${sql.join(all)} WHERE ${key} = ${sql.val('')} AND "_version" = ${sql.val(0)}`.compile(
    own,
  ).sql;
}
