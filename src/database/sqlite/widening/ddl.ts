import { sql, type CompiledQuery, type Kysely, type RawBuilder } from 'kysely';
import type { Column, ShapeChange, TableShape } from '../../../model/table.ts';
import type { ColumnType } from '../../../model/vocabulary.ts';
import { ownColumns } from '../../own-columns.ts';
import type { OwnTables } from '../../own-tables.ts';
import { NUMBER_TEXT } from '../connection/configure.ts';
import { PARENT_KEY, parentKey, parentTable } from '../../key-plan.ts';

/** A column of a source or of ours. */
type NamedColumn = Pick<Column, 'name' | 'type'>;

/**
 * Declared types, chosen by what BI clients read right. NUMERIC and JSON stand in text columns, because SQLite's
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
 * `CREATE TABLE` with the columns that the shape has now; ours right after the key, before any long body. `tables` are
 * all of its resource. The key to the parent is for those who read: our own connection does not check it.
 */
export function createTable(own: Kysely<OwnTables>, table: TableShape, tables: readonly TableShape[]): CompiledQuery {
  const keys = table.key.map(
    (name, index) => sql`${sql.id(name)} ${sql.raw(index === 0 ? 'TEXT' : 'BIGINT')} NOT NULL`,
  );
  const stamps = ownColumns(table).map(
    (column) => sql`${sql.id(column.name)} ${declared(column)}${sql.raw(column.isRequired ? ' NOT NULL' : '')}`,
  );
  const columns = table.columns.map((column) => sql`${sql.id(column.name)} ${declared(column)}`);
  const key = sql`PRIMARY KEY (${names(table.key)})`;
  const parent = parentTable(table, tables);
  const above = parent === null ? [] : [foreignKey(table, parent)];
  return sql`CREATE TABLE ${sql.id(table.name)} (${sql.join([...keys, ...stamps, ...columns, key, ...above])})`.compile(
    own,
  );
}

function foreignKey(table: TableShape, parent: TableShape): RawBuilder<unknown> {
  return sql`CONSTRAINT ${sql.id(`${PARENT_KEY}${table.name}`)} FOREIGN KEY (${names(parentKey(table))})
    REFERENCES ${sql.id(parent.name)} (${names(parent.key)}) DEFERRABLE INITIALLY DEFERRED`;
}

function names(columns: readonly string[]): RawBuilder<unknown> {
  return sql.join(columns.map((name) => sql.id(name)));
}

/**
 * An index of deleted rows alone: how many there are, of the last day or in all, and which are old, is asked often, and
 * without it each answer would read the whole table. Rows that are live are not in it and cost nothing.
 */
export function createDeletedIndex(own: Kysely<OwnTables>, table: TableShape): CompiledQuery {
  const name = sql.id(`_sync_deleted_${table.name}`);
  return sql`CREATE INDEX IF NOT EXISTS ${name} ON ${sql.id(table.name)} ("_deleted_at")
    WHERE "_deleted_at" IS NOT NULL`.compile(own);
}

export function addColumn(own: Kysely<OwnTables>, table: string, column: NamedColumn): CompiledQuery {
  return sql`ALTER TABLE ${sql.id(table)} ADD COLUMN ${sql.id(column.name)} ${declared(column)}`.compile(own);
}

/**
 * Widens a column under its own name. SQLite cannot alter a type, so the values move to a new column and the old one
 * goes; the caller's transaction makes that one step for readers.
 */
export function widenColumn(own: Kysely<OwnTables>, change: ShapeChange): CompiledQuery[] {
  const { table: tableName, column, from } = change;
  if (from === null) return [];
  const table = sql.id(tableName);
  const name = sql.id(column.name);
  if (DECLARED_TYPES[from] === DECLARED_TYPES[column.type]) {
    const value = converted(name, from, column.type);
    return [sql`UPDATE ${table} SET ${name} = ${value} WHERE ${name} IS NOT NULL`.compile(own)];
  }
  const before = sql.id(`${column.name}__was`);
  return [
    sql`ALTER TABLE ${table} RENAME COLUMN ${name} TO ${before}`,
    sql`ALTER TABLE ${table} ADD COLUMN ${name} ${declared(column)}`,
    sql`UPDATE ${table} SET ${name} = ${converted(before, from, column.type)} WHERE ${before} IS NOT NULL`,
    sql`ALTER TABLE ${table} DROP COLUMN ${before}`,
  ].map((statement) => statement.compile(own));
}

function declared(column: NamedColumn): RawBuilder<unknown> {
  return sql.raw(DECLARED_TYPES[column.type]);
}

/**
 * A stored value of type `from` as the wider type holds it. Exact for all pairs but those of `rows/evolve-shape.ts`:
 * for them it is the best that can be said without the record's body.
 */
function converted(value: RawBuilder<unknown>, from: ColumnType, to: ColumnType): RawBuilder<unknown> {
  if (from === 'boolean') return sql`CASE WHEN ${value} THEN 'true' ELSE 'false' END`;
  if (to === 'double') return sql`CAST(${value} AS REAL)`;
  if (to === 'timestamp') return sql`${value} || ' 00:00:00'`;
  if (from === 'double') return sql`${sql.raw(NUMBER_TEXT)}(${value})`;
  const isText = from === 'text' || from === 'date' || from === 'timestamp';
  return to === 'json' && isText ? sql`json_quote(${value})` : sql`CAST(${value} AS TEXT)`;
}
