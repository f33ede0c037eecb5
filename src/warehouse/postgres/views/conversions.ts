import type { ColumnType } from '../../../model/vocabulary.ts';

type Conversion = (sql: string, from: ColumnType) => string;

/**
 * A value of one type as one of another; NULL where it is none of that. No value makes it fail: what is cast was looked
 * at before, because no Postgres before 16 can be asked whether a text is of a type.
 */
export function converted(sql: string, from: ColumnType, to: ColumnType): string {
  return from === to ? sql : TO[to](sql, from);
}

/** A value as a text, numbers by their digits, whatever the reader's session is set to. */
export function textOf(sql: string, from: ColumnType): string {
  return (AS_TEXT[from] ?? cast)(sql);
}

function cast(sql: string): string {
  return `${sql}::text`;
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
  // What is no object or array is shown as it is, without the quotes of JSON.
  json: (sql) => `(${sql} #>> '{}')`,
};

/** `body` over a value that is computed once and has a name in it. */
function given(value: string, body: string): string {
  return `(SELECT ${body} FROM (SELECT ${value} AS v OFFSET 0) AS given)`;
}

/** As JSON writes numbers: a text of any other form is a word, or the name of something. */
const NUMBER = String.raw`'^-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][-+]?[0-9]{1,3})?$'`;
const LONGEST_NUMBER = 1_000;

/** As a numeric; NULL if it is no number. */
function number(sql: string, from: ColumnType): string {
  if (from === 'integer' || from === 'numeric') return `${sql}::numeric`;
  const isNumber = `v ~ ${NUMBER} AND length(v) <= ${LONGEST_NUMBER}`;
  return given(textOf(sql, from), `CASE WHEN ${isNumber} THEN v::numeric END`);
}

const INT64 = { least: '-9223372036854775808', most: '9223372036854775807' } as const;

/** What a whole number cannot hold is none: a sum would be wrong without showing it. */
function integer(sql: string, from: ColumnType): string {
  // A double from 2^63 on is too large, and 2^63 is one.
  if (from === 'double') {
    return `CASE WHEN ${sql} = trunc(${sql}) AND ${sql} >= -9223372036854775808 AND ${sql} < 9223372036854775808 THEN ${sql}::bigint END`;
  }
  const isWhole = `v = trunc(v) AND v BETWEEN ${INT64.least} AND ${INT64.most}`;
  return given(number(sql, from), `CASE WHEN ${isWhole} THEN v::bigint END`);
}

/** The nearest one. */
function double(sql: string, from: ColumnType): string {
  if (from === 'integer') return `${sql}::double precision`;
  const fits = `WHEN abs(v) BETWEEN 1e-307 AND 1.7976931348623157e308 THEN v::double precision`;
  return given(number(sql, from), `CASE ${fits} WHEN abs(v) < 1e-307 THEN 0::double precision END`);
}

/** Days that the calendar has, from the year 1 on. */
const DAY = String.raw`((?!0000)[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))|([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)-02-29)`;
const CLOCK = String.raw`([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?`;
const ZONE = String.raw`([Zz]|[-+]([01][0-9]|2[0-3])(:?[0-5][0-9])?)?`;
const MOMENT = `'^${DAY}([Tt ]${CLOCK}${ZONE})?$'`;

/**
 * A text as a time of the zone UTC, without a zone: in the form in which tables hold times and dates, or as ISO 8601
 * writes them. A time without a zone is taken for one of UTC; what is finer than a microsecond is cut off.
 */
function moment(sql: string, from: ColumnType): string {
  const clock = String.raw`substring(v from '^.{10}.[0-9:]{5,8}(?:[.][0-9]{1,6})?')`;
  const offset = String.raw`replace(substring(v from ':[0-9]{2}(?:[.][0-9]+)?([-+][0-9:]+)$'), ':', '')`;
  const minutes = `(left(o, 1) || rpad(substr(o, 4), 2, '0'))::int`;
  const shift = `coalesce(make_interval(0, 0, 0, 0, left(o, 3)::int, ${minutes}), interval '0')`;
  const read = `(SELECT coalesce(${clock}, v)::timestamp - ${shift} FROM (SELECT ${offset} AS o OFFSET 0) AS zone)`;
  return given(textOf(sql, from), `CASE WHEN v ~ ${MOMENT} THEN ${read} END`);
}

const WORDS = `WHEN 'true' THEN true WHEN 'false' THEN false WHEN '1' THEN true WHEN '0' THEN false`;

const TO: Readonly<Record<ColumnType, Conversion>> = {
  boolean: (sql, from) => `CASE ${textOf(sql, from)} ${WORDS} END`,
  integer,
  double,
  numeric: number,
  // Its day in UTC, as the moment itself is shown.
  date: (sql, from) => (from === 'timestamp' ? `(${sql} AT TIME ZONE 'UTC')::date` : `${moment(sql, from)}::date`),
  timestamp: (sql, from) =>
    from === 'date' ? `(${sql}::timestamp AT TIME ZONE 'UTC')` : `(${moment(sql, from)} AT TIME ZONE 'UTC')`,
  text: textOf,
  json: (sql, from) => `pg_catalog.to_jsonb(${from === 'date' || from === 'timestamp' ? textOf(sql, from) : sql})`,
};
