import { sql, type CompiledQuery, type Kysely, type RawBuilder } from 'kysely';
import type { Column, TableShape } from '../../../model/table.ts';
import { textHash } from '../../../shape/records/fingerprint.ts';
import { ownColumns } from '../../own-columns.ts';
import type { OwnTables } from '../../own-tables.ts';
import { DECLARED_TYPES } from '../connection/column-types.ts';

/** A column of a source or of ours. */
type NamedColumn = Pick<Column, 'name' | 'type'>;

/** Where Postgres cuts names off. */
const MAX_NAME_BYTES = 63;

/** Columns that hold keys, as `table.column`. */
type References = ReadonlySet<string>;

/** `CREATE TABLE` with the columns that the shape has now; ours right after the key, before any long body. */
export function createTable(own: Kysely<OwnTables>, table: TableShape, references: References): CompiledQuery {
  // By bytes, as SQLite compares: both walk the keys in one order.
  const keys = table.key.map(
    (name, index) => sql`${sql.id(name)} ${sql.raw(index === 0 ? 'text COLLATE "C"' : 'bigint')} NOT NULL`,
  );
  const stamps = ownColumns(table).map(
    (column) => sql`${sql.id(column.name)} ${declared(column)}${sql.raw(column.isRequired ? ' NOT NULL' : '')}`,
  );
  const columns = table.columns.map(
    (column) => sql`${sql.id(column.name)} ${sourceColumn(table.name, column, references)}`,
  );
  // Named by us, because a child table may be called what Postgres would call it.
  const key = sql`CONSTRAINT ${sql.id(nameBehind('_sync_key_', table.name))} PRIMARY KEY (${sql.join(table.key.map((name) => sql.id(name)))})`;
  return sql`CREATE TABLE ${sql.id(table.name)} (${sql.join([...keys, ...stamps, ...columns, key])})`.compile(own);
}

/**
 * An index of deleted rows alone: how many there are, of the last day or in all, and which are old, is asked often, and
 * without it each answer would read the whole table. Rows that are live are not in it and cost nothing.
 */
export function createDeletedIndex(own: Kysely<OwnTables>, table: TableShape): CompiledQuery {
  const name = sql.id(nameBehind('_sync_deleted_', table.name));
  return sql`CREATE INDEX ${name} ON ${sql.id(table.name)} ("_deleted_at") WHERE "_deleted_at" IS NOT NULL`.compile(
    own,
  );
}

/** In one statement: hundreds may come with one record. */
export function addColumns(
  own: Kysely<OwnTables>,
  table: string,
  columns: readonly NamedColumn[],
  references: References,
): CompiledQuery {
  const actions = columns.map(
    (column) => sql`ADD COLUMN IF NOT EXISTS ${sql.id(column.name)} ${sourceColumn(table, column, references)}`,
  );
  return sql`ALTER TABLE ${sql.id(table)} ${sql.join(actions)}`.compile(own);
}

function declared(column: NamedColumn): RawBuilder<unknown> {
  return sql.raw(DECLARED_TYPES[column.type]);
}

/** What holds keys compares as they do, or no index could serve a join. */
function sourceColumn(table: string, column: NamedColumn, references: References): RawBuilder<unknown> {
  const isKey = column.type === 'text' && references.has(`${table}.${column.name}`);
  return isKey ? sql`${declared(column)} COLLATE "C"` : declared(column);
}

/** A name made of a table's, which may itself be as long as names get. */
export function nameBehind(prefix: string, table: string): string {
  const name = `${prefix}${table}`;
  return Buffer.byteLength(name) <= MAX_NAME_BYTES ? name : `${prefix}${textHash(table)}`;
}
