import type { Database, Statement } from 'better-sqlite3';

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
