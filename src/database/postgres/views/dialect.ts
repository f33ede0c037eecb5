// The SQL expressions of managed views on Postgres, which `src/views` puts together. There are two groups:
// 1. Values of earlier versions, which history views read from the stored JSON bodies (`FROM_JSON`).
// 2. Columns of tables, converted to another type (`CONVERSIONS`). A view promises the types of its columns: if a price
//    became the text `9.90` in the table, the view still shows a number, and NULL for the text `on request`.
// The functions `_sync_...` are created by a migration.
import { escapeIdentifier, escapeLiteral } from 'pg';
import type { ColumnType } from '../../../model/vocabulary.ts';
import type { BodyDialect, FieldValues, RowFact, ViewDialect } from '../../view-dialect.ts';
import { DECLARED_TYPES } from '../connection/column-types.ts';

/** With `OFFSET 0`, Postgres parses a body once per row, and only if a query selects one of its values. */
const BODY_DIALECT: BodyDialect = {
  from: ' FROM "_sync_versions" AS v CROSS JOIN LATERAL (SELECT "_sync_json"(v."body") AS j OFFSET 0) AS b',
  value: (path, type, zone) => FROM_JSON[type](jsonAt(path), zone),
  list: (path) => `CASE WHEN jsonb_typeof(${jsonAt(path)}) = 'array' THEN ${jsonAt(path)} END`,
};

/** The JSON value at a path; NULL if there is none. `_sync_json` writes the symbol ␀ for a NUL character. */
function jsonAt(path: readonly string[]): string {
  const keys = path.map((key) => ` -> ${escapeLiteral(key.toWellFormed().replaceAll('\0', '␀'))}`);
  return `(b.j${keys.join('')})`;
}

function jsonText(value: string): string {
  return `(${value} #>> '{}')`;
}

function jsonNumber(value: string): string {
  return `CASE jsonb_typeof(${value}) WHEN 'number' THEN ${value}::numeric END`;
}

/** A number without trailing zeros, as in a column of numbers. */
function jsonNumeric(value: string): string {
  return `CASE WHEN length(${jsonText(value)}) <= 17 THEN trim_scale(${jsonNumber(value)}) ELSE ${jsonNumber(value)} END`;
}

/** The most frequent form of times. It is cast, which is faster than `_sync_moment`; days after the 28th may not exist. */
const COMMON_TIME =
  "'^(?!0000)[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,6})?Z$'";

/** Postgres reads an offset such as `+02:00` as POSIX does, where it is west of Greenwich. */
function zoneName(zone: string): string {
  return zone.replace(/^[-+](?=\d)/, (sign) => (sign === '+' ? '-' : '+'));
}

const IS_INT64 = 'BETWEEN -9223372036854775808 AND 9223372036854775807';

const FROM_JSON: Readonly<Record<ColumnType, (value: string, zone: string | null) => string>> = {
  boolean: (value) => `CASE ${jsonText(value)} WHEN 'true' THEN true WHEN 'false' THEN false END`,
  integer: (value) =>
    `CASE WHEN ${jsonNumber(value)} = trunc(${jsonNumber(value)}) AND ${jsonNumber(value)} ${IS_INT64} THEN ${jsonNumber(value)}::bigint END`,
  double: (value) =>
    `CASE WHEN abs(${jsonNumber(value)}) BETWEEN 5e-324 AND 1.7976931348623157e308 OR ${jsonNumber(value)} = 0 THEN ${jsonNumber(value)}::double precision END`,
  numeric: jsonNumeric,
  date: (value) =>
    `CASE length(${jsonText(value)}) WHEN 10 THEN ("_sync_moment"(${jsonText(value)}, NULL) AT TIME ZONE 'UTC')::date END`,
  timestamp: (value, zone) =>
    `CASE WHEN ${jsonText(value)} ~ ${COMMON_TIME} THEN ${jsonText(value)}::timestamptz ELSE "_sync_moment"(${jsonText(value)}, ${zone === null ? 'NULL' : escapeLiteral(zoneName(zone))}) END`,
  text: (value) =>
    `CASE jsonb_typeof(${value}) WHEN 'number' THEN "_sync_number_text"(${value}::numeric) WHEN 'string' THEN ${jsonText(value)} WHEN 'boolean' THEN ${jsonText(value)} END`,
  json: (value) => `NULLIF(${value}, 'null'::jsonb)`,
};

export const VIEW_DIALECT: ViewDialect = {
  types: DECLARED_TYPES,
  id: escapeIdentifier,
  literal: escapeLiteral,
  converted: convert,
  text: toText,
  declared: (sql) => sql,
  day: (sql) => `${sql}::date`,
  viewType: (type) => type,
  falseLiteral: 'false',
  computeOnce: (sql, use) => `(SELECT ${use('x')} FROM (SELECT ${sql} AS x OFFSET 0) AS o)`,
  bodies: BODY_DIALECT,
  perRow: joinFacts,
  // Not VALUES, because Postgres prepares each of its expressions again for each row.
  differingFields: (fields) => ({
    join: ` CROSS JOIN LATERAL unnest(${fieldArrays(fields).join(', ')}) AS f(field, before, after)`,
    where: 'f.before IS DISTINCT FROM f.after',
    field: 'f.field',
    before: 'f.before',
    after: 'f.after',
  }),
};

function fieldArrays(fields: readonly FieldValues[]): string[] {
  const names = fields.map(({ field }) => escapeLiteral(field));
  const texts = [names, fields.map(({ before }) => before), fields.map(({ after }) => after)];
  return texts.map((each) => `ARRAY[${each.join(', ')}]::text[]`);
}

/** Joins all facts about the same rows in one lookup, which the planner omits if a query selects none of them. */
function joinFacts(
  ...[alias, facts, { from, order }]: Parameters<ViewDialect['perRow']>
): ReturnType<ViewDialect['perRow']> {
  const list = facts.map((fact) => `${AGGREGATES[fact.kind](fact, order)} AS ${escapeIdentifier(fact.name)}`);
  return {
    join: ` LEFT JOIN LATERAL (SELECT ${list.join(', ')}${from}) AS ${alias} ON true`,
    sqlOf: (name) => `${alias}.${escapeIdentifier(name)}`,
  };
}

const AGGREGATES: Readonly<Record<RowFact['kind'], (fact: RowFact, order: readonly string[]) => string>> = {
  count: () => 'count(*)',
  sum: ({ sql, type }) => SUMS[type]?.(sql) ?? 'NULL',
  first: ({ sql }) => `min(${sql})`,
  last: ({ sql }) => `max(${sql})`,
  joined: ({ sql }, order) => `pg_catalog.string_agg(${sql}, ', ' ORDER BY ${order.join(', ')})`,
};

/** A sum that its type cannot hold is NULL, because an error would fail the whole query. */
const SUMS: Partial<Record<ColumnType, (sql: string) => string>> = {
  integer: (sql) =>
    `CASE WHEN abs(coalesce(sum(${sql}), 0)) <= 9223372036854775807 THEN coalesce(sum(${sql}), 0)::bigint END`,
  double: (sql) =>
    `CASE WHEN coalesce(max(abs(${sql})), 0) < '1e290'::float8 THEN coalesce(sum(${sql}) FILTER (WHERE abs(${sql}) < '1e290'::float8), 0) END`,
  numeric: (sql) => `coalesce(sum(${sql}), 0)`,
};

/**
 * Converts a value to another type; NULL if that is impossible. No value makes the query fail: it is checked before the
 * cast, because Postgres can only test since version 16 whether a cast would fail.
 */
function convert(sql: string, from: ColumnType, to: ColumnType): string {
  if (sql === 'NULL') return `NULL::${DECLARED_TYPES[to]}`;
  return from === to ? sql : CONVERSIONS[to](sql, from);
}

/** Converts a value to a text that does not depend on the settings of the reader's session. */
function toText(sql: string, from: ColumnType): string {
  return TEXT_FORMS[from]?.(sql) ?? `${sql}::text`;
}

const TEXT_FORMS: Partial<Record<ColumnType, (sql: string) => string>> = {
  text: (sql) => sql,
  date: (sql) => `to_char(${sql}, 'YYYY-MM-DD')`,
  // The form in which SQLite stores times.
  timestamp: (sql) =>
    `regexp_replace(to_char(${sql} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US'), '([.]000000|000)$', '')`,
  // The form of numbers in JSON.
  double: (sql) =>
    `CASE WHEN abs(${sql}) >= 1e21 OR abs(${sql}) < 1e-6 AND ${sql} <> 0
    THEN replace(${sql}::text, 'e-0', 'e-') ELSE ${sql}::text::numeric::text END`.replaceAll(/\s+/g, ' '),
  // Scalars without the quotes of JSON.
  json: (sql) => `(${sql} #>> '{}')`,
};

/** An expression `body` over `v`, which is the value, computed once. */
function nameValue(value: string, body: string): string {
  return `(SELECT ${body} FROM (SELECT ${value} AS v OFFSET 0) AS given)`;
}

const JSON_NUMBER = String.raw`'^-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][-+]?[0-9]{1,3})?$'`;
const MAX_NUMBER_LENGTH = 1_000;

/** Converts a value to a numeric; NULL if it is no number. */
function toNumeric(sql: string, from: ColumnType): string {
  if (from === 'integer' || from === 'numeric') return `${sql}::numeric`;
  const isNumber = `v ~ ${JSON_NUMBER} AND length(v) <= ${MAX_NUMBER_LENGTH}`;
  return nameValue(toText(sql, from), `CASE WHEN ${isNumber} THEN v::numeric END`);
}

/** Converts a value to an integer; NULL if it is no whole number: rounded values would make a sum silently wrong. */
function toInteger(sql: string, from: ColumnType): string {
  // 2^63 - 1, the largest integer, has no double: as a double it would be 2^63.
  if (from === 'double') {
    return `CASE WHEN ${sql} = trunc(${sql}) AND ${sql} >= -9223372036854775808 AND ${sql} < 9223372036854775808 THEN ${sql}::bigint END`;
  }
  const isWhole = `v = trunc(v) AND v ${IS_INT64}`;
  return nameValue(toNumeric(sql, from), `CASE WHEN ${isWhole} THEN v::bigint END`);
}

/** Converts a value to the nearest double. */
function toDouble(sql: string, from: ColumnType): string {
  if (from === 'integer') return `${sql}::double precision`;
  const fits = `WHEN abs(v) BETWEEN 1e-307 AND 1.7976931348623157e308 THEN v::double precision`;
  return nameValue(toNumeric(sql, from), `CASE ${fits} WHEN abs(v) < 1e-307 THEN 0::double precision END`);
}

/** Converts a text in the form of table cells or of ISO 8601 to a time; NULL for others. A time without a zone is UTC. */
function toTimestamp(sql: string, from: ColumnType): string {
  return `"_sync_moment"(${toText(sql, from)}, NULL)`;
}

const BOOLEAN_CASES = `WHEN 'true' THEN true WHEN 'false' THEN false WHEN '1' THEN true WHEN '0' THEN false`;

const CONVERSIONS: Readonly<Record<ColumnType, (sql: string, from: ColumnType) => string>> = {
  boolean: (sql, from) => `CASE ${toText(sql, from)} ${BOOLEAN_CASES} END`,
  integer: toInteger,
  double: toDouble,
  numeric: toNumeric,
  // The day in UTC, because views show times in UTC.
  date: (sql, from) => `(${from === 'timestamp' ? sql : toTimestamp(sql, from)} AT TIME ZONE 'UTC')::date`,
  timestamp: (sql, from) => (from === 'date' ? `(${sql}::timestamp AT TIME ZONE 'UTC')` : toTimestamp(sql, from)),
  text: toText,
  json: (sql, from) => `pg_catalog.to_jsonb(${from === 'date' || from === 'timestamp' ? toText(sql, from) : sql})`,
};
