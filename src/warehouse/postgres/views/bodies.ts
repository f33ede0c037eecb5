import { escapeLiteral } from 'pg';
import type { ColumnType } from '../../../model/vocabulary.ts';
import type { BodyDialect } from '../../view-dialect.ts';

/** Bodies are read by functions of ours (of a migration), once a row and only where a query asks for it. */
export const BODIES: BodyDialect = {
  from: ' FROM "_sync_versions" AS v CROSS JOIN LATERAL (SELECT "_sync_json"(v."body") AS j OFFSET 0) AS b',
  value: (path, type, zone) => VALUE[type](at(path), zone),
  list: (path) => `CASE WHEN jsonb_typeof(${at(path)}) = 'array' THEN ${at(path)} END`,
};

/** A key finds nothing in what is no object. `_sync_json` writes a NUL as its symbol. */
function at(path: readonly string[]): string {
  const keys = path.map((key) => ` -> ${escapeLiteral(key.toWellFormed().replaceAll('\0', '␀'))}`);
  return `(b.j${keys.join('')})`;
}

function text(value: string): string {
  return `(${value} #>> '{}')`;
}

function number(value: string): string {
  return `CASE jsonb_typeof(${value}) WHEN 'number' THEN ${value}::numeric END`;
}

/** By its value: JSON's text has zeros at the end that a column of numbers does not have. */
function numeric(value: string): string {
  return `CASE WHEN length(${text(value)}) <= 17 THEN trim_scale(${number(value)}) ELSE ${number(value)} END`;
}

/** The form of most times, of days that each month has: the server reads it by itself, which is faster. */
const PLAIN_TIME =
  "'^(?!0000)[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,6})?Z$'";

/** For the server, as for POSIX, an offset counts to the west. */
function zoneName(zone: string): string {
  return zone.replace(/^[-+](?=\d)/, (sign) => (sign === '+' ? '-' : '+'));
}

const VALUE: Readonly<Record<ColumnType, (value: string, zone: string | null) => string>> = {
  boolean: (value) => `CASE ${text(value)} WHEN 'true' THEN true WHEN 'false' THEN false END`,
  integer: (value) =>
    `CASE WHEN ${number(value)} = trunc(${number(value)}) AND ${number(value)} BETWEEN -9223372036854775808 AND 9223372036854775807 THEN ${number(value)}::bigint END`,
  double: (value) =>
    `CASE WHEN abs(${number(value)}) BETWEEN 5e-324 AND 1.7976931348623157e308 OR ${number(value)} = 0 THEN ${number(value)}::double precision END`,
  numeric,
  date: (value) =>
    `CASE length(${text(value)}) WHEN 10 THEN ("_sync_moment"(${text(value)}, NULL) AT TIME ZONE 'UTC')::date END`,
  timestamp: (value, zone) =>
    `CASE WHEN ${text(value)} ~ ${PLAIN_TIME} THEN ${text(value)}::timestamptz ELSE "_sync_moment"(${text(value)}, ${zone === null ? 'NULL' : escapeLiteral(zoneName(zone))}) END`,
  text: (value) =>
    `CASE jsonb_typeof(${value}) WHEN 'number' THEN "_sync_number_text"(${value}::numeric) WHEN 'string' THEN ${text(value)} WHEN 'boolean' THEN ${text(value)} END`,
  json: (value) => `NULLIF(${value}, 'null'::jsonb)`,
};
