import { sql, type CompiledQuery, type Kysely, type RawBuilder } from 'kysely';
import type { Column, ShapeChange, TableShape } from '../../model/table.ts';
import type { ColumnType } from '../../model/words.ts';
import type { OwnTables } from '../own-tables.ts';

/**
 * Declared types, chosen by what BI clients read right. NUMERIC and JSON stand in text columns, because SQLite's
 * numeric affinity would turn long decimals into doubles and the JSON text `5` into the integer.
 */
export const DECLARED_TYPES: Readonly<Record<ColumnType, string>> = {
  boolean: 'BOOLEAN',
  integer: 'BIGINT',
  double: 'DOUBLE',
  numeric: 'TEXT',
  date: 'DATE',
  timestamp: 'TIMESTAMP',
  text: 'TEXT',
  json: 'TEXT',
};

/** Columns of ours in a resource's own table, right after the key so that a lookup never reads a long body. */
export const STAMP_COLUMNS = ['_hash', '_version', '_synced_at', '_deleted_at'] as const;

/** `CREATE TABLE IF NOT EXISTS` with the columns that the shape has now. */
export function createTable(own: Kysely<OwnTables>, table: TableShape): CompiledQuery {
  const keys = table.key.map((name, index) => sql`${sql.id(name)} ${sql.raw(index === 0 ? 'TEXT' : 'BIGINT')} NOT NULL`);
  const stamps =
    table.path.length === 0
      ? [sql`"_hash" TEXT NOT NULL, "_version" BIGINT NOT NULL, "_synced_at" TIMESTAMP NOT NULL, "_deleted_at" TIMESTAMP`]
      : [];
  const columns = table.columns.map((column) => sql`${sql.id(column.name)} ${declared(column)}`);
  const key = sql`PRIMARY KEY (${sql.join(table.key.map((name) => sql.id(name)))})`;
  return sql`CREATE TABLE IF NOT EXISTS ${sql.id(table.name)} (${sql.join([...keys, ...stamps, ...columns, key])})`.compile(own);
}

export function addColumn(own: Kysely<OwnTables>, table: string, column: Column): CompiledQuery {
  return sql`ALTER TABLE ${sql.id(table)} ADD COLUMN ${sql.id(column.name)} ${declared(column)}`.compile(own);
}

/**
 * Widens a column under its own name. SQLite cannot alter a type, so the values move to a new column and the old one
 * goes; the caller's transaction makes that one step for readers.
 */
export function widenColumn(own: Kysely<OwnTables>, change: ShapeChange & { from: ColumnType }): CompiledQuery[] {
  const table = sql.id(change.table);
  const name = sql.id(change.column.name);
  const before = sql.id(`${change.column.name}__was`);
  return [
    sql`ALTER TABLE ${table} RENAME COLUMN ${name} TO ${before}`,
    sql`ALTER TABLE ${table} ADD COLUMN ${name} ${declared(change.column)}`,
    sql`UPDATE ${table} SET ${name} = ${converted(before, change.from, change.column.type)} WHERE ${before} IS NOT NULL`,
    sql`ALTER TABLE ${table} DROP COLUMN ${before}`,
  ].map((statement) => statement.compile(own));
}

function declared(column: Column): RawBuilder<unknown> {
  return sql.raw(DECLARED_TYPES[column.type]);
}

/** A stored value of type `from` as the text or number that the wider type would have held. */
function converted(value: RawBuilder<unknown>, from: ColumnType, to: ColumnType): RawBuilder<unknown> {
  if (from === 'boolean') return sql`CASE WHEN ${value} THEN 'true' ELSE 'false' END`;
  if (to === 'double') return sql`CAST(${value} AS REAL)`;
  if (from === 'double') {
    // A whole number has no decimal point in JSON; the others need 17 digits to come back as the same double.
    return sql`CASE WHEN ${value} = CAST(${value} AS INTEGER) THEN CAST(CAST(${value} AS INTEGER) AS TEXT)
      WHEN CAST(CAST(${value} AS TEXT) AS REAL) = ${value} THEN CAST(${value} AS TEXT)
      ELSE format('%!.17g', ${value}) END`;
  }
  const isText = from === 'text' || from === 'date' || from === 'timestamp';
  return to === 'json' && isText ? sql`json_quote(${value})` : sql`CAST(${value} AS TEXT)`;
}
