import { escapeIdentifier as quoted } from 'pg';
import type { ColumnType } from '../../../model/vocabulary.ts';
import type { ShapeGrowth } from '../../warehouse.ts';
import type { Session } from '../connection/session.ts';
import { DECLARED_TYPES } from '../connection/column-types.ts';

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
 * `shape/evolve-shape.ts`: for them it is the best that can be said without the record's body.
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
