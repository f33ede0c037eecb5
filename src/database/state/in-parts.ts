// Splits lists so that a statement stays below the limits of bound values.
import { type CompiledQuery, type Kysely, sql } from 'kysely';
import type { OwnTables } from '../own-tables.ts';

/** Splits a list of ids or short rows into parts: every database limits the bound values of a statement. */
export function inParts<T>(list: readonly T[], size = 500): T[][] {
  const parts: T[][] = [];
  for (let at = 0; at < list.length; at += size) parts.push(list.slice(at, at + size));
  return parts;
}

/** Values of a statement, below the limits of all databases. */
const MAX_VALUES = 6_000;

/**
 * Returns the statements that insert rows, or update `columns` of the rows that exist under `key`: by default all others;
 * without any, those rows stay as they are. A statement must not write the same row twice.
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

/** Inserts a row, or updates the one that exists under `key`. */
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
      // The parameters are typed by the table, which the types of Kysely do not follow.
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
