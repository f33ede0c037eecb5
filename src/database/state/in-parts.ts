// Splits long lists into several statements, because every database limits the number of bound values of one: 20,000 ids
// take 40 statements (`inParts`). Also builds the statements that insert or update rows of internal tables (`upsertRows`).
import { type CompiledQuery, type Kysely, sql } from 'kysely';
import type { OwnTables } from '../own-tables.ts';

/** Splits a list of ids or short rows into parts. */
export function inParts<T>(list: readonly T[], size = 500): T[][] {
  const parts: T[][] = [];
  for (let at = 0; at < list.length; at += size) parts.push(list.slice(at, at + size));
  return parts;
}

/** The maximum number of bound values of a statement, below the limits of all databases. */
const MAX_VALUES = 6_000;

/**
 * Returns the statements that insert rows. If a row with the same `key` exists, they update its `columns`: by default all
 * columns but the key; with an empty list the row stays as it is. The rows must have distinct keys.
 */
export function upsertRows<Table extends keyof OwnTables>(
  own: Kysely<OwnTables>,
  table: Table,
  rows: readonly OwnTables[Table][],
  key: readonly (keyof OwnTables[Table] & string)[],
  columns?: readonly (keyof OwnTables[Table] & string)[],
): CompiledQuery[] {
  const width = Object.keys(rows[0] ?? {}).length;
  const parts = inParts(rows, Math.max(1, Math.floor(MAX_VALUES / Math.max(1, width))));
  return parts.map((part) => upsertStatement(own, table, part, key, columns));
}

/** Returns the statement that inserts a row, or updates the existing one with the same `key`. */
export function upsertRow<Table extends keyof OwnTables>(
  own: Kysely<OwnTables>,
  table: Table,
  row: OwnTables[Table],
  key: readonly (keyof OwnTables[Table] & string)[],
): CompiledQuery {
  return upsertStatement(own, table, [row], key);
}

function upsertStatement<Table extends keyof OwnTables>(
  own: Kysely<OwnTables>,
  table: Table,
  rows: readonly OwnTables[Table][],
  key: readonly (keyof OwnTables[Table] & string)[],
  columns: readonly string[] = Object.keys(rows[0] ?? {}).filter((name) => !key.some((each) => each === name)),
): CompiledQuery {
  const newValues = Object.fromEntries(columns.map((name) => [name, sql<never>`excluded.${sql.id(name)}`]));
  return (
    own
      .insertInto(table)
      // Kysely cannot infer the type of the rows from the type parameter `Table`.
      // oxlint-disable-next-line no-unsafe-type-assertion
      .values(rows as never)
      .onConflict((conflict) => {
        const existing = conflict.columns(key);
        // oxlint-disable-next-line no-unsafe-type-assertion
        return columns.length === 0 ? existing.doNothing() : existing.doUpdateSet(newValues as never);
      })
      .compile()
  );
}
