// Statements that create and widen tables, and comments on tables, views and columns.
import { escapeIdentifier as quoted, escapeLiteral } from 'pg';
import type { Column, TableShape } from '../../../model/table.ts';
import type { ColumnType } from '../../../model/vocabulary.ts';
import { textHash } from '../../../rows/records/record-key.ts';
import { columnDefinitions, internalColumns } from '../../table-layout.ts';
import type { ViewChange } from '../../view-dialect.ts';
import type { ColumnComment } from '../../warehouse.ts';
import { DECLARED_TYPES } from '../connection/column-types.ts';
import type { Session } from '../connection/session.ts';
import { type PostgresSchema, transact } from '../connection/transact.ts';

/** Postgres cuts off longer names. */
const MAX_NAME_BYTES = 63;

/** Columns that hold keys of other records, as `table.column`. */
type References = ReadonlySet<string>;

export function createTable(table: TableShape, references: References): string {
  const columns = columnDefinitions(table, {
    quote: quoted,
    // Keys are ordered by their bytes, as SQLite does.
    keyType: 'text COLLATE "C"',
    types: DECLARED_TYPES,
    columnType: (column) => columnType(table.name, column, references),
  });
  // A child table may have the name that Postgres would choose.
  const constraint = quoted(prefixedName('_sync_key_', table.name));
  const key = `CONSTRAINT ${constraint} PRIMARY KEY (${table.key.map(quoted).join(', ')})`;
  return `CREATE TABLE ${quoted(table.name)} (${[...columns, key].join(', ')})`;
}

/** A partial index of deleted rows: they are counted often, and live rows cost nothing. */
export function createDeletedIndex({ name }: TableShape): string {
  const index = quoted(prefixedName('_sync_deleted_', name));
  return `CREATE INDEX ${index} ON ${quoted(name)} ("_deleted_at") WHERE "_deleted_at" IS NOT NULL`;
}

/** Adds hundreds of columns in one statement. */
export function addColumns(table: string, columns: readonly Column[], references: References): string {
  const actions = columns.map(
    (column) => `ADD COLUMN IF NOT EXISTS ${quoted(column.name)} ${columnType(table, column, references)}`,
  );
  return `ALTER TABLE ${quoted(table)} ${actions.join(', ')}`;
}

/** Columns that hold keys have the collation of keys, so that an index can serve a join. */
function columnType(table: string, { name, type }: Column, references: References): string {
  const isKey = type === 'text' && references.has(`${table}.${name}`);
  return isKey ? 'text COLLATE "C"' : DECLARED_TYPES[type];
}

/** A name derived from a table's name, which may have the maximum length. */
export function prefixedName(prefix: string, table: string): string {
  const name = `${prefix}${table}`;
  return Buffer.byteLength(name) <= MAX_NAME_BYTES ? name : `${prefix}${textHash(table)}`;
}

/** The columns of one table that get wider types. */
export interface Widening {
  table: string;
  columns: readonly { name: string; type: ColumnType; from: ColumnType }[];
}

/** Returns the statements that widen columns: one per table, so that it is rewritten once. */
export function widenStatements(widenings: readonly Widening[]): string[] {
  const statements = widenings.map(({ table, columns }) => {
    const actions = columns.map(
      ({ name, type, from }) =>
        `ALTER COLUMN ${quoted(name)} TYPE ${DECLARED_TYPES[type]} USING ${converted(quoted(name), from, type)}`,
    );
    return `ALTER TABLE ${quoted(table)} ${actions.join(', ')}`;
  });
  const hasDouble = widenings.some(({ columns }) => columns.some(({ from }) => from === 'double'));
  // All digits, whatever the settings of role and database are.
  return hasDouble
    ? ['SET LOCAL extra_float_digits TO 1', CREATE_NUMBER_TEXT, ...statements, DROP_NUMBER_TEXT]
    : statements;
}

/** From 2^54 on, Postgres and JavaScript may differ in the last digit that they write. */
const DIFFERENT_DIGITS_FROM = '18014398509481984';

/** A stored value as the wider type holds it: exact, except for the pairs that `rows/evolve-shape.ts` names. */
function converted(value: string, from: ColumnType, to: ColumnType): string {
  return (TARGETS[to] ?? toText)(value, from);
}

const TARGETS: Partial<Record<ColumnType, (value: string, from: ColumnType) => string>> = {
  double: (value) => `${value}::double precision`,
  numeric: (value, from) => (from === 'double' ? `${toText(value, from)}::numeric` : `${value}::numeric`),
  timestamp: (value) => `${value}::timestamp AT TIME ZONE 'UTC'`,
  json: (value, from) => `pg_catalog.to_jsonb(${AS_JSON[from]?.(value) ?? value})`,
};

/** Types whose JSON form differs from the column's text. */
const AS_JSON: Partial<Record<ColumnType, (value: string) => string>> = {
  double: (value) => `${toText(value, 'double')}::numeric`,
  date: (value) => toText(value, 'date'),
  timestamp: (value) => toText(value, 'timestamp'),
};

/** The SQL function that writes a double as JSON and JavaScript do. */
const NUMBER_TEXT = '"_sync_number_text"';

const AS_TEXT: Partial<Record<ColumnType, (value: string) => string>> = {
  // Without milliseconds if they are zero.
  timestamp: (value) => `replace(to_char(${value} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS'), '.000', '')`,
  double: (value) => `CASE WHEN abs(${value}) >= ${DIFFERENT_DIGITS_FROM} THEN ${NUMBER_TEXT}(${value})
    WHEN ${value} <> 0 AND abs(${value}) < 1e-6 THEN replace(${value}::text, 'e-0', 'e-')
    ELSE ${value}::text::numeric::text END`,
};

function toText(value: string, from: ColumnType): string {
  return AS_TEXT[from]?.(value) ?? `${value}::text`;
}

/**
 * For doubles from 2^54 on: the fewest digits that are read back as the same double. Postgres does not count those
 * exactly between two doubles, and writes 9.999999999999999e+22 where JavaScript writes 1e+23.
 */
const CREATE_NUMBER_TEXT = `
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

/** The function only exists within the transaction. */
const DROP_NUMBER_TEXT = `DROP FUNCTION ${NUMBER_TEXT}(double precision)`;

/** `base` is null for a view, whose comments are all ours. */
type WantedComment = Omit<ColumnComment, 'base'> & { kind: 'TABLE' | 'VIEW'; base: string | null };

/**
 * Updates the comments of tables, their columns and changed views, unless a user has replaced them. It only writes those
 * that differ: there may be hundreds of columns.
 */
export async function updateComments(
  database: PostgresSchema,
  described: readonly ColumnComment[],
  tables: readonly TableShape[],
  views: readonly ViewChange[],
): Promise<void> {
  const ofInternalColumns = tables.flatMap((table) =>
    internalColumns(table).map(({ name, comment }) => ({ table: table.name, column: name, base: comment, comment })),
  );
  const wanted: WantedComment[] = [...described, ...ofInternalColumns].map((each) =>
    Object.assign({ kind: 'TABLE' as const }, each),
  );
  for (const { name: table, description, columns } of views.filter(({ isChanged }) => isChanged)) {
    const view = { kind: 'VIEW', table, base: null } as const;
    wanted.push({ ...view, column: null, comment: description });
    for (const { name: column, description: comment } of columns)
      wanted.push({ ...view, column, comment: comment ?? '' });
  }
  if (wanted.length === 0) return;
  const update = async ({ execute }: Session): Promise<void> => {
    const names = [...new Set(wanted.map(({ table }) => table))];
    const { rows } = await execute<{ table: string; column: string | null; comment: string }>(COMMENTS, [names]);
    const existing = new Map(rows.map((row) => [JSON.stringify([row.table, row.column]), row.comment]));
    const statements = wanted.flatMap(({ table, kind, column, comment, base }) => {
      const before = existing.get(JSON.stringify([table, column]));
      if (before === undefined || !isOutdated(before, comment, base)) return [];
      const object = column === null ? `${kind} ${quoted(table)}` : `COLUMN ${quoted(table)}.${quoted(column)}`;
      return [`COMMENT ON ${object} IS ${escapeLiteral(comment)}`];
    });
    if (statements.length > 0) await execute(statements.join(';'));
  };
  await transact(database, update, { mayRepeat: true });
}

/** A table's comment may have a suffix after the profile's text. */
function isOutdated(before: string, comment: string, base: string | null): boolean {
  if (base === null || before === '') return before !== comment;
  return before.includes(base) && !before.startsWith(comment);
}

/** The comments of relations and their columns; empty for those without one. */
const COMMENTS = `
  SELECT relname AS "table", attname AS "column",
    coalesce(CASE WHEN attname IS NULL THEN obj_description(oid, 'pg_class') ELSE col_description(oid, attnum) END, '')
      AS comment
  FROM (SELECT oid, relname, NULL::name AS attname, 0 AS attnum FROM pg_class
      WHERE relnamespace = current_schema()::regnamespace AND relname = ANY($1)
    UNION ALL SELECT pg_class.oid, relname, attname, attnum FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
      WHERE relnamespace = current_schema()::regnamespace AND relname = ANY($1) AND attnum > 0 AND NOT attisdropped) AS each`;
