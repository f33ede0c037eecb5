import { escapeIdentifier, escapeLiteral } from 'pg';
import type { ColumnType } from '../../../model/vocabulary.ts';
import type { ViewDialect } from '../../view-dialect.ts';
import { DECLARED_TYPES } from '../connection/column-types.ts';

export const VIEW_DIALECT: ViewDialect = {
  types: DECLARED_TYPES,
  id: escapeIdentifier,
  literal: escapeLiteral,
  moment: (sql) => `(${sql} AT TIME ZONE 'UTC')`,
  converted: (sql, from, to) => (sql === 'NULL' ? `NULL::${DECLARED_TYPES[to]}` : CONVERT[to](sql, from)),
  text: (sql, from) =>
    from === 'json' ? `(${sql} #>> '{}')` : from === 'timestamp' ? momentText(sql) : `${sql}::text`,
  shown: (type) => type,
};

/** As the warehouse writes times, whatever the reader's zone is. */
function momentText(sql: string): string {
  return `replace(to_char(${sql} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS'), '.000', '')`;
}

const NUMBER = String.raw`'^\s*[-+]?(\d{1,255}(\.\d{0,255})?|\.\d{1,255})([eE][-+]?\d{1,2})?\s*$'`;
const NUMBERS: ReadonlySet<ColumnType> = new Set(['integer', 'double', 'numeric']);

function plain(sql: string, from: ColumnType): string {
  return from === 'text' ? sql : VIEW_DIALECT.text(sql, from);
}

/** As a numeric; NULL if it is no number. */
function number(sql: string, from: ColumnType): string {
  if (NUMBERS.has(from)) return `${sql}::numeric`;
  const value = plain(sql, from);
  return `CASE WHEN ${value} ~ ${NUMBER} THEN ${value}::numeric END`;
}

const CONVERT: Readonly<Record<ColumnType, (sql: string, from: ColumnType) => string>> = {
  boolean: (sql, from) =>
    `CASE ${plain(sql, from)} WHEN 'true' THEN true WHEN 'false' THEN false WHEN '1' THEN true WHEN '0' THEN false END`,
  // What a whole number cannot hold is none.
  integer: (sql, from) => {
    const value = `(${number(sql, from)})`;
    return `CASE WHEN ${value} = trunc(${value}) AND abs(${value}) <= 9223372036854775807 THEN ${value}::bigint END`;
  },
  double: (sql, from) => {
    const value = `(${number(sql, from)})`;
    return `CASE WHEN abs(${value}) < 1e308 THEN ${value}::double precision END`;
  },
  numeric: (sql, from) => number(sql, from),
  date: (sql, from) => `(${CONVERT.timestamp(sql, from)} AT TIME ZONE 'UTC')::date`,
  timestamp: (sql, from) => {
    if (from === 'timestamp') return sql;
    if (from === 'date') return `(${sql}::timestamp AT TIME ZONE 'UTC')`;
    const value = plain(sql, from);
    return `(CASE WHEN ${value} ~ ${MOMENT} THEN (${value})::timestamp AT TIME ZONE 'UTC' END)`;
  },
  text: (sql, from) => VIEW_DIALECT.text(sql, from),
  json: (sql, from) => (from === 'json' ? sql : `to_jsonb(${sql})`),
};

/** The form in which tables keep times and dates as texts. */
const MOMENT = String.raw`'^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])( ([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?)?$'`;
