import { type CompiledQuery, type Kysely, type RawBuilder, sql } from 'kysely';
import type { Column, ShapeChange, TableShape } from '../../../model/table.ts';
import type { ColumnType } from '../../../model/vocabulary.ts';
import { PARENT_KEY, parentKey, parentTable } from '../../key-plan.ts';
import { ownColumns } from '../../own-columns.ts';
import type { OwnTables } from '../../own-tables.ts';
import { NUMBER_TEXT } from '../connection/open-file.ts';

/**
 * Declared types, chosen by what BI clients read correctly. NUMERIC and JSON are in text columns, because SQLite's
 * numeric affinity would turn long decimals into doubles and the JSON text `5` into the integer.
 */
const DECLARED_TYPES: Readonly<Record<ColumnType, string>> = {
  boolean: 'BOOLEAN',
  integer: 'BIGINT',
  double: 'DOUBLE',
  numeric: 'TEXT',
  date: 'DATE',
  timestamp: 'TIMESTAMP',
  text: 'TEXT',
  json: 'TEXT',
};

/**
 * `CREATE TABLE` with the shape's columns; internal columns come right after the key, before any long text. `tables` are
 * all of its resource. The foreign key is for readers: our own connection does not check it.
 */
export function createTable(own: Kysely<OwnTables>, table: TableShape, tables: readonly TableShape[]): CompiledQuery {
  const keys = table.key.map(
    (name, index) => sql`${sql.id(name)} ${sql.raw(index === 0 ? 'TEXT' : 'BIGINT')} NOT NULL`,
  );
  const internal = ownColumns(table).map(
    ({ name, type, isRequired }) =>
      sql`${sql.id(name)} ${sql.raw(`${DECLARED_TYPES[type]}${isRequired ? ' NOT NULL' : ''}`)}`,
  );
  const key = sql`PRIMARY KEY (${list(table.key)})`;
  const parts = [...keys, ...internal, ...table.columns.map(columnDefinition), key];
  const parent = parentTable(table, tables);
  if (parent !== null) {
    parts.push(sql`CONSTRAINT ${sql.id(`${PARENT_KEY}${table.name}`)} FOREIGN KEY (${list(parentKey(table))})
    REFERENCES ${sql.id(parent.name)} (${list(parent.key)}) DEFERRABLE INITIALLY DEFERRED`);
  }
  return sql`CREATE TABLE ${sql.id(table.name)} (${sql.join(parts)})`.compile(own);
}

function list(columns: readonly string[]): RawBuilder<unknown> {
  return sql.join(columns.map((name) => sql.id(name)));
}

function columnDefinition({ name, type }: Column): RawBuilder<unknown> {
  return sql`${sql.id(name)} ${sql.raw(DECLARED_TYPES[type])}`;
}

/** A partial index of deleted rows: they are counted often, and live rows cost nothing. */
export function createDeletedIndex(own: Kysely<OwnTables>, table: TableShape): CompiledQuery {
  const name = sql.id(`_sync_deleted_${table.name}`);
  return sql`CREATE INDEX IF NOT EXISTS ${name} ON ${sql.id(table.name)} ("_deleted_at")
    WHERE "_deleted_at" IS NOT NULL`.compile(own);
}

export function addColumn(own: Kysely<OwnTables>, table: string, column: Column): CompiledQuery {
  return sql`ALTER TABLE ${sql.id(table)} ADD COLUMN ${columnDefinition(column)}`.compile(own);
}

/** Widens a column under its own name. SQLite cannot alter a type, so the values move to a new column. */
export function widenColumn(own: Kysely<OwnTables>, change: ShapeChange): CompiledQuery[] {
  const { table: tableName, column, from } = change;
  if (from === null) return [];
  const [table, name] = [sql.id(tableName), sql.id(column.name)];
  if (DECLARED_TYPES[from] === DECLARED_TYPES[column.type]) {
    const value = converted(name, from, column.type);
    return [sql`UPDATE ${table} SET ${name} = ${value} WHERE ${name} IS NOT NULL`.compile(own)];
  }
  const before = sql.id(`${column.name}__was`);
  return [
    sql`ALTER TABLE ${table} RENAME COLUMN ${name} TO ${before}`,
    sql`ALTER TABLE ${table} ADD COLUMN ${columnDefinition(column)}`,
    sql`UPDATE ${table} SET ${name} = ${converted(before, from, column.type)} WHERE ${before} IS NOT NULL`,
    sql`ALTER TABLE ${table} DROP COLUMN ${before}`,
  ].map((statement) => statement.compile(own));
}

/** A stored value as the wider type holds it: exact, except for the pairs that `rows/evolve-shape.ts` names. */
function converted(value: RawBuilder<unknown>, from: ColumnType, to: ColumnType): RawBuilder<unknown> {
  if (from === 'boolean') return sql`CASE WHEN ${value} THEN 'true' ELSE 'false' END`;
  if (to === 'double') return sql`CAST(${value} AS REAL)`;
  if (to === 'timestamp') return sql`${value} || ' 00:00:00'`;
  if (from === 'double') return sql`${sql.raw(NUMBER_TEXT)}(${value})`;
  const isText = from === 'text' || from === 'date' || from === 'timestamp';
  return to === 'json' && isText ? sql`json_quote(${value})` : sql`CAST(${value} AS TEXT)`;
}
