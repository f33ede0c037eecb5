import { sql, type CompiledQuery, type Kysely, type RawBuilder } from 'kysely';
import type { Column, TableShape } from '../../../model/table.ts';
import { textHash } from '../../../rows/records/fingerprint.ts';
import { ownColumns } from '../../own-columns.ts';
import type { OwnTables } from '../../own-tables.ts';
import { DECLARED_TYPES } from '../connection/column-types.ts';
import { escapeIdentifier as quoted } from 'pg';
import type { ColumnType } from '../../../model/vocabulary.ts';
import type { ShapeGrowth } from '../../warehouse.ts';
import type { Session } from '../connection/session.ts';

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

/** The columns of one table that get wider types. */
export interface Widening {
  table: string;
  columns: readonly { name: string; type: ColumnType; from: ColumnType }[];
}

/** The part of a growth that widens existing columns. */
export function wideningsOf({ before, changes }: Pick<ShapeGrowth, 'before' | 'changes'>): Widening[] {
  const known = new Set(before?.tables.map(({ name }) => name));
  const wider = changes.flatMap(({ table, column: { name, type }, from }) =>
    from === null || !known.has(table) ? [] : [{ table, name, type, from }],
  );
  return Array.from(
    Map.groupBy(wider, ({ table }) => table),
    ([table, columns]) => ({ table, columns }),
  );
}

/** One statement, so that the table is rewritten once. Indexes on the columns are built again by the server. */
export function alterTypes({ table, columns }: Widening): string {
  const actions = columns.map(({ name, type, from }) => {
    return `ALTER COLUMN ${quoted(name)} TYPE ${DECLARED_TYPES[type]} USING ${converted(quoted(name), from, type)}`;
  });
  return `ALTER TABLE ${quoted(table)} ${actions.join(', ')}`;
}

/** From here on (2^54) Postgres and JavaScript may differ in the last digit that they write. */
const DIFFERENT = '18014398509481984';

/**
 * A stored value of type `from` as the wider type holds it; `value` is SQL. Exact for all pairs but those of
 * `rows/evolve-shape.ts`: for them it is the best that can be said without the record's body.
 */
function converted(value: string, from: ColumnType, to: ColumnType): string {
  return (TARGETS[to] ?? textOf)(value, from);
}

const TARGETS: Partial<Record<ColumnType, (value: string, from: ColumnType) => string>> = {
  double: (value) => `${value}::double precision`,
  numeric: (value, from) => (from === 'double' ? `${textOf(value, from)}::numeric` : `${value}::numeric`),
  timestamp: (value) => `${value}::timestamp AT TIME ZONE 'UTC'`,
  json: (value, from) => `pg_catalog.to_jsonb(${AS_JSON[from]?.(value) ?? value})`,
};

/** Types whose JSON form differs from the column's text. */
const AS_JSON: Partial<Record<ColumnType, (value: string) => string>> = {
  double: (value) => `${textOf(value, 'double')}::numeric`,
  date: (value) => textOf(value, 'date'),
  timestamp: (value) => textOf(value, 'timestamp'),
};

const AS_TEXT: Partial<Record<ColumnType, (value: string) => string>> = {
  // With milliseconds only if there are some.
  timestamp: (value) => `replace(to_char(${value} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS'), '.000', '')`,
  double: (value) => `CASE WHEN abs(${value}) >= ${DIFFERENT} THEN ${NUMBER_TEXT}(${value})
    WHEN ${value} <> 0 AND abs(${value}) < 1e-6 THEN replace(${value}::text, 'e-0', 'e-')
    ELSE ${value}::text::numeric::text END`,
};

function textOf(value: string, from: ColumnType): string {
  return AS_TEXT[from]?.(value) ?? `${value}::text`;
}

/** The SQL function that writes a double as JSON and JavaScript do. */
const NUMBER_TEXT = '"_sync_number_text"';

type Columns = readonly { columns: readonly { from: ColumnType }[] }[];

/** Makes the function if a double is among what widens. It lives within the transaction: nothing of it is left. */
export async function makeNumberText({ execute }: Session, widenings: Columns): Promise<void> {
  // All digits, whatever the role or the database is set to.
  if (hasDouble(widenings)) await execute(`SET LOCAL extra_float_digits TO 1; ${MAKE}`);
}

export async function dropNumberText({ execute }: Session, widenings: Columns): Promise<void> {
  if (hasDouble(widenings)) await execute(DROP);
}

function hasDouble(widenings: Columns): boolean {
  return widenings.some(({ columns }) => columns.some(({ from }) => from === 'double'));
}

/**
 * For doubles from 2^54 on: the fewest digits that are read back as the same double. Postgres does not count those
 * that lie exactly between two doubles, and writes 9.999999999999999e+22 where JavaScript writes 1e+23.
 */
const MAKE = `
  CREATE FUNCTION ${NUMBER_TEXT}(double precision) RETURNS text LANGUAGE sql IMMUTABLE STRICT AS $$
    WITH own AS (SELECT abs($1::text::numeric) AS value, length(trunc(abs($1::text::numeric))::text) AS digits),
    short AS (
      SELECT short::text AS digits FROM own, generate_series(1, 17) AS kept,
        LATERAL (VALUES (trunc(value, kept - digits)), (trunc(value, kept - digits) + power(10::numeric, digits - kept)))
          AS shorter(short)
      WHERE CASE WHEN short <= 1.7976931348623157e308::numeric THEN trunc(short)::double precision = abs($1) END
      ORDER BY kept, abs(short - value) LIMIT 1
    ),
    trimmed AS (SELECT split_part(digits, '.', 1) AS whole FROM short)
    SELECT CASE WHEN $1 < 0 THEN '-' ELSE '' END || CASE WHEN abs($1) < 1e21 THEN whole ELSE
      rtrim(left(whole, 1) || '.' || rtrim(substr(whole, 2), '0'), '.') || 'e+' || length(whole) - 1 END
    FROM trimmed
  $$`;

const DROP = `DROP FUNCTION ${NUMBER_TEXT}(double precision)`;
