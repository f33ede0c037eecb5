import type { Database, Statement } from 'better-sqlite3';
import { sql, type Kysely } from 'kysely';
import type { Cell, TableShape } from '../../../model/table.ts';
import { emptiedColumns, stampedColumns } from '../../own-columns.ts';
import type { OwnTables } from '../../own-tables.ts';

/** The columns of a row as they are inserted. */
export function insertedColumns(table: TableShape): string[] {
  return [...table.key, ...[...stampedColumns(table), ...table.columns].map(({ name }) => name)];
}

/** The insert of so many rows; into a resource's own table it overwrites what was there. */
export function upsertStatement(own: Kysely<OwnTables>, table: TableShape, rows: number): string {
  const names = insertedColumns(table);
  const row = `(${Array(names.length).fill('?').join(',')})`;
  const columns = sql.join(names.map((name) => sql.id(name)));
  // Without a name of its own, a table that is called `excluded` would be meant by both.
  const insert = sql`INSERT INTO ${sql.id(table.name)} AS "_there" (${columns}) VALUES ${sql.raw(Array(rows).fill(row).join(','))}`;
  if (table.path.length > 0) return insert.compile(own).sql;
  const keys = sql.join(table.key.map((name) => sql.id(name)));
  const updates = names.slice(table.key.length).map((name) => sql`${sql.id(name)} = excluded.${sql.id(name)}`);
  const emptied = emptiedColumns(table).map(({ name }) => sql`${sql.id(name)} = NULL`);
  // The guard makes a late page harmless: what was asked for later stays.
  return sql`${insert} ON CONFLICT (${keys}) DO UPDATE SET ${sql.join([...updates, ...emptied])}
    WHERE excluded."_synced_at" >= "_there"."_synced_at"`.compile(own).sql;
}

/** Writes a record's source columns anew, if its row is of that version: cells, key, version. */
export function rewriteStatement(own: Kysely<OwnTables>, table: TableShape): string {
  const key = sql.id(table.key[0] ?? '');
  const sets = table.columns.map(({ name }) => sql`${sql.id(name)} = ${sql.val(null)}`);
  const all = sets.length === 0 ? [sql`${key} = ${key}`] : sets;
  return sql`UPDATE ${sql.id(table.name)} SET ${sql.join(all)} WHERE ${key} = ${sql.val('')} AND "_version" = ${sql.val(0)}`.compile(
    own,
  ).sql;
}

/** Deletes the rows of one record, by its key. */
export function deleteStatement(own: Kysely<OwnTables>, table: TableShape): string {
  const key = sql.id(table.key[0] ?? '');
  return sql`DELETE FROM ${sql.id(table.name)} WHERE ${key} = ${sql.val('')}`.compile(own).sql;
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
      statement.run(params);
    }
  };
}
