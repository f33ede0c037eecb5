// The SQL expressions of managed views on Postgres. A view promises a type for each of its columns: if the values of a table
// have another type (a price that became the text `9.90`), the view converts them, or shows NULL. History views read the
// values of earlier versions from the stored JSON bodies. The functions `_sync_...` are created by a migration.
import { escapeIdentifier, escapeLiteral } from 'pg';
import type { ColumnType } from '../../../model/vocabulary.ts';
import type { FieldValues, RowFact, ViewDialect, BodyDialect } from '../../view-dialect.ts';
import { DECLARED_TYPES } from '../connection/column-types.ts';

/** `OFFSET 0` has a body parsed once per row, and only if a query selects one of its values. */
const BODIES: BodyDialect = {
  from: ' FROM "_sync_versions" AS v CROSS JOIN LATERAL (SELECT "_sync_json"(v."body") AS j OFFSET 0) AS b',
  value: (path, type, zone) => VALUE[type](at(path), zone),
  list: (path) => `CASE WHEN jsonb_typeof(${at(path)}) = 'array' THEN ${at(path)} END`,
};

/** The JSON value at a path; NULL if there is none. `_sync_json` writes a NUL as its symbol. */
function at(path: readonly string[]): string {
  const keys = path.map((key) => ` -> ${escapeLiteral(key.toWellFormed().replaceAll('\0', '␀'))}`);
  return `(b.j${keys.join('')})`;
}

function text(value: string): string {
  return `(${value} #>> '{}')`;
}

function jsonNumber(value: string): string {
  return `CASE jsonb_typeof(${value}) WHEN 'number' THEN ${value}::numeric END`;
}

/** Without trailing zeros, which a column of numbers does not have. */
function numeric(value: string): string {
  return `CASE WHEN length(${text(value)}) <= 17 THEN trim_scale(${jsonNumber(value)}) ELSE ${jsonNumber(value)} END`;
}

/** The most frequent form of times, on days that every month has: a cast is faster. */
const PLAIN_TIME =
  "'^(?!0000)[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,6})?Z$'";

/** Postgres reads offsets as POSIX does: positive to the west. */
function zoneName(zone: string): string {
  return zone.replace(/^[-+](?=\d)/, (sign) => (sign === '+' ? '-' : '+'));
}

const IS_INT64 = 'BETWEEN -9223372036854775808 AND 9223372036854775807';

const VALUE: Readonly<Record<ColumnType, (value: string, zone: string | null) => string>> = {
  boolean: (value) => `CASE ${text(value)} WHEN 'true' THEN true WHEN 'false' THEN false END`,
  integer: (value) =>
    `CASE WHEN ${jsonNumber(value)} = trunc(${jsonNumber(value)}) AND ${jsonNumber(value)} ${IS_INT64} THEN ${jsonNumber(value)}::bigint END`,
  double: (value) =>
    `CASE WHEN abs(${jsonNumber(value)}) BETWEEN 5e-324 AND 1.7976931348623157e308 OR ${jsonNumber(value)} = 0 THEN ${jsonNumber(value)}::double precision END`,
  numeric,
  date: (value) =>
    `CASE length(${text(value)}) WHEN 10 THEN ("_sync_moment"(${text(value)}, NULL) AT TIME ZONE 'UTC')::date END`,
  timestamp: (value, zone) =>
    `CASE WHEN ${text(value)} ~ ${PLAIN_TIME} THEN ${text(value)}::timestamptz ELSE "_sync_moment"(${text(value)}, ${zone === null ? 'NULL' : escapeLiteral(zoneName(zone))}) END`,
  text: (value) =>
    `CASE jsonb_typeof(${value}) WHEN 'number' THEN "_sync_number_text"(${value}::numeric) WHEN 'string' THEN ${text(value)} WHEN 'boolean' THEN ${text(value)} END`,
  json: (value) => `NULLIF(${value}, 'null'::jsonb)`,
};

export const VIEW_DIALECT: ViewDialect = {
  types: DECLARED_TYPES,
  id: escapeIdentifier,
  literal: escapeLiteral,
  converted,
  text: textOf,
  declared: (sql) => sql,
  day: (sql) => `${sql}::date`,
  viewType: (type) => type,
  falseLiteral: 'false',
  computeOnce: (sql, use) => `(SELECT ${use('x')} FROM (SELECT ${sql} AS x OFFSET 0) AS o)`,
  bodies: BODIES,
  perRow,
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

/** One lookup for all facts about the same rows; the planner omits it if no query selects one of them. */
function perRow(
  ...[alias, facts, { from, order }]: Parameters<ViewDialect['perRow']>
): ReturnType<ViewDialect['perRow']> {
  const list = facts.map((fact) => `${FACT[fact.kind](fact, order)} AS ${escapeIdentifier(fact.name)}`);
  return {
    join: ` LEFT JOIN LATERAL (SELECT ${list.join(', ')}${from}) AS ${alias} ON true`,
    sqlOf: (name) => `${alias}.${escapeIdentifier(name)}`,
  };
}

const FACT: Readonly<Record<RowFact['kind'], (fact: RowFact, order: readonly string[]) => string>> = {
  count: () => 'count(*)',
  sum: ({ sql, type }) => SUM[type]?.(sql) ?? 'NULL',
  first: ({ sql }) => `min(${sql})`,
  last: ({ sql }) => `max(${sql})`,
  joined: ({ sql }, order) => `pg_catalog.string_agg(${sql}, ', ' ORDER BY ${order.join(', ')})`,
};

/** A sum that its type cannot hold is NULL: it must not fail the query of all others. */
const SUM: Partial<Record<ColumnType, (sql: string) => string>> = {
  integer: (sql) =>
    `CASE WHEN abs(coalesce(sum(${sql}), 0)) <= 9223372036854775807 THEN coalesce(sum(${sql}), 0)::bigint END`,
  double: (sql) =>
    `CASE WHEN coalesce(max(abs(${sql})), 0) < '1e290'::float8 THEN coalesce(sum(${sql}) FILTER (WHERE abs(${sql}) < '1e290'::float8), 0) END`,
  numeric: (sql) => `coalesce(sum(${sql}), 0)`,
};

/**
 * A value of one type as one of another; NULL if it cannot be converted. No value makes it fail: the value is checked
 * before the cast, because no Postgres before 16 can be asked whether a text is of a type.
 */
function converted(sql: string, from: ColumnType, to: ColumnType): string {
  if (sql === 'NULL') return `NULL::${DECLARED_TYPES[to]}`;
  return from === to ? sql : TO[to](sql, from);
}

/** A value as a text, numbers by their digits, whatever the reader's session is set to. */
function textOf(sql: string, from: ColumnType): string {
  return AS_TEXT[from]?.(sql) ?? `${sql}::text`;
}

const AS_TEXT: Partial<Record<ColumnType, (sql: string) => string>> = {
  text: (sql) => sql,
  date: (sql) => `to_char(${sql}, 'YYYY-MM-DD')`,
  // As the warehouse writes times.
  timestamp: (sql) =>
    `regexp_replace(to_char(${sql} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US'), '([.]000000|000)$', '')`,
  // As JSON writes numbers.
  double: (sql) =>
    `CASE WHEN abs(${sql}) >= 1e21 OR abs(${sql}) < 1e-6 AND ${sql} <> 0
    THEN replace(${sql}::text, 'e-0', 'e-') ELSE ${sql}::text::numeric::text END`.replaceAll(/\s+/g, ' '),
  // Scalars without the quotes of JSON.
  json: (sql) => `(${sql} #>> '{}')`,
};

/** An expression `body` over `v`, the value, which is computed once. */
function nameValue(value: string, body: string): string {
  return `(SELECT ${body} FROM (SELECT ${value} AS v OFFSET 0) AS given)`;
}

/** Numbers as JSON writes them. */
const NUMBER = String.raw`'^-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][-+]?[0-9]{1,3})?$'`;
const MAX_NUMBER_LENGTH = 1_000;

/** As a numeric; NULL if it is no number. */
function number(sql: string, from: ColumnType): string {
  if (from === 'integer' || from === 'numeric') return `${sql}::numeric`;
  const isNumber = `v ~ ${NUMBER} AND length(v) <= ${MAX_NUMBER_LENGTH}`;
  return nameValue(textOf(sql, from), `CASE WHEN ${isNumber} THEN v::numeric END`);
}

/** A value that is no whole number becomes NULL: rounded values would make a sum silently wrong. */
function integer(sql: string, from: ColumnType): string {
  // A double from 2^63 on is too large, and 2^63 is one.
  if (from === 'double') {
    return `CASE WHEN ${sql} = trunc(${sql}) AND ${sql} >= -9223372036854775808 AND ${sql} < 9223372036854775808 THEN ${sql}::bigint END`;
  }
  const isWhole = `v = trunc(v) AND v ${IS_INT64}`;
  return nameValue(number(sql, from), `CASE WHEN ${isWhole} THEN v::bigint END`);
}

/** The nearest double. */
function double(sql: string, from: ColumnType): string {
  if (from === 'integer') return `${sql}::double precision`;
  const fits = `WHEN abs(v) BETWEEN 1e-307 AND 1.7976931348623157e308 THEN v::double precision`;
  return nameValue(number(sql, from), `CASE ${fits} WHEN abs(v) < 1e-307 THEN 0::double precision END`);
}

/** A text as a time, in the form of table cells or of ISO 8601; NULL for any other. A time without a zone is UTC. */
function moment(sql: string, from: ColumnType): string {
  return `"_sync_moment"(${textOf(sql, from)}, NULL)`;
}

const WORDS = `WHEN 'true' THEN true WHEN 'false' THEN false WHEN '1' THEN true WHEN '0' THEN false`;

const TO: Readonly<Record<ColumnType, (sql: string, from: ColumnType) => string>> = {
  boolean: (sql, from) => `CASE ${textOf(sql, from)} ${WORDS} END`,
  integer,
  double,
  numeric: number,
  // Its day in UTC, as the timestamp itself is shown.
  date: (sql, from) => `(${from === 'timestamp' ? sql : moment(sql, from)} AT TIME ZONE 'UTC')::date`,
  timestamp: (sql, from) => (from === 'date' ? `(${sql}::timestamp AT TIME ZONE 'UTC')` : moment(sql, from)),
  text: textOf,
  json: (sql, from) => `pg_catalog.to_jsonb(${from === 'date' || from === 'timestamp' ? textOf(sql, from) : sql})`,
};
