import { sql, type CompiledQuery, type Kysely } from 'kysely';
import type { ColumnRow, OwnTables } from '../warehouse/own-tables.ts';
import { inParts } from './in-parts.ts';

/** Hundreds of columns may come with one record. Eleven values each are below every database's limit of bound values. */
export const ROWS_PER_STATEMENT = 500;

/** The statements that add columns to the catalogue; those that are in it get the type that they have now. */
export function saveColumns(own: Kysely<OwnTables>, rows: readonly ColumnRow[]): CompiledQuery[] {
  return inParts(distinct(rows), ROWS_PER_STATEMENT).map((part) =>
    own
      .insertInto('_sync_columns')
      .values(part)
      .onConflict((conflict) =>
        conflict.columns(['table_name', 'column_name']).doUpdateSet((is) => ({ type: is.ref('excluded.type') })),
      )
      .compile(),
  );
}

/** No statement may write a row twice: the first one comes, with the type of the last one. */
function distinct(rows: readonly ColumnRow[]): ColumnRow[] {
  const byName = new Map<string, ColumnRow>();
  for (const row of rows) {
    const name = JSON.stringify([row.table_name, row.column_name]);
    byName.set(name, { ...(byName.get(name) ?? row), type: row.type });
  }
  return [...byName.values()];
}

/** What is now said of a column, or shown as an example of its values. */
export interface SaidOfColumn {
  table: string;
  column: string;
  text: string;
}

/** The statements that change what the catalogue says of columns: their comments, or the values that may be shown. */
export function saveTexts(
  own: Kysely<OwnTables>,
  what: 'comment' | 'example',
  said: readonly SaidOfColumn[],
): CompiledQuery[] {
  return inParts(said, ROWS_PER_STATEMENT).map((part) => {
    const rows = part.map(({ table, column, text }) => sql`(${table}, ${column}, ${text})`);
    // Both databases name the columns of bare rows so.
    const values = sql<Record<'column1' | 'column2' | 'column3', string>>`(VALUES ${sql.join(rows)})`;
    return own
      .updateTable('_sync_columns')
      .from(values.as('said'))
      .set((is) => ({ [what]: is.ref('said.column3') }))
      .whereRef('_sync_columns.table_name', '=', 'said.column1')
      .whereRef('_sync_columns.column_name', '=', 'said.column2')
      .compile();
  });
}
