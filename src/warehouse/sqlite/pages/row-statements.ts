import type { Database, Statement } from 'better-sqlite3';
import type { Cell, Column, TableShape } from '../../../model/table.ts';
import { emptiedColumns, stampedColumns } from '../../own-columns.ts';

/** The columns of a row as they are inserted. */
export function insertedColumns(table: TableShape): string[] {
  return [...table.key, ...[...stampedColumns(table), ...table.columns].map(({ name }) => name)];
}

/** A name as it stands in a statement. */
function id(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** Clients of SQLite read no more than milliseconds. */
function placeholder({ type }: Column): string {
  return type === 'timestamp' ? `replace(substr(?, 1, 23), '.000', '')` : '?';
}

/** The insert of so many rows; into a resource's own table it overwrites what was there. */
export function upsertStatement(table: TableShape, rows: number): string {
  const names = insertedColumns(table);
  const before = names.length - table.columns.length;
  const row = `(${[...Array<string>(before).fill('?'), ...table.columns.map(placeholder)].join(',')})`;
  // Without a name of its own, a table that is called `excluded` would be meant by both.
  const insert = `INSERT INTO ${id(table.name)} AS "_there" (${names.map(id).join(', ')}) VALUES ${Array(rows).fill(row).join(',')}`;
  if (table.path.length > 0) return insert;
  const updates = names.slice(table.key.length).map((name) => `${id(name)} = excluded.${id(name)}`);
  const emptied = emptiedColumns(table).map(({ name }) => `${id(name)} = NULL`);
  // The guard makes a late page harmless: what was asked for later stays.
  return `${insert} ON CONFLICT (${table.key.map(id).join(', ')}) DO UPDATE SET ${[...updates, ...emptied].join(', ')}
    WHERE excluded."_synced_at" >= "_there"."_synced_at"`;
}

/** Deletes the rows of one record, by its key. */
export function deleteStatement(table: TableShape): string {
  return `DELETE FROM ${id(table.name)} WHERE ${id(table.key[0] ?? '')} = ?`;
}

/** A cell as SQLite takes it. */
export function bound(cell: Cell | undefined): BoundCell {
  if (cell === true) return 1;
  if (cell === false) return 0;
  return cell ?? null;
}

/** Rows per statement: more gain nothing on SQLite and make binding dearer. */
const ROWS_PER_STATEMENT = 20;
const MAX_VARIABLES = 32_766;
/** So many fit on any stack. */
const MOST_ARGUMENTS = 4_000;

export type BoundCell = string | number | bigint | Buffer | null;

/** Puts one row's values into `params` from index `at` on. */
export type FillRow = (row: number, params: BoundCell[], at: number) => void;

/** Inserts any number of rows of one width. */
export type MultiRowInsert = (count: number, fill: FillRow) => void;

/**
 * Statements of one insert by their number of rows, prepared once and kept: the full batch, and whatever is left over
 * at a page's end. `text` makes the SQL for so many rows.
 */
export function multiRowInsert(db: Database, width: number, text: (rows: number) => string): MultiRowInsert {
  const statements = new Map<number, Statement>();
  const batch = Math.max(1, Math.min(ROWS_PER_STATEMENT, Math.floor(MAX_VARIABLES / width)));
  return (count, fill) => {
    for (let start = 0; start < count; start += batch) {
      const rows = Math.min(batch, count - start);
      let statement = statements.get(rows);
      if (statement === undefined) statements.set(rows, (statement = db.prepare(text(rows))));
      const params: BoundCell[] = [];
      for (let row = 0; row < rows; row += 1) fill(start + row, params, row * width);
      // Values that are arguments of their own are bound faster than those of an array.
      if (params.length <= MOST_ARGUMENTS) statement.run(...params);
      else statement.run(params);
    }
  };
}
