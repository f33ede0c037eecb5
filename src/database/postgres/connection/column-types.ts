// Declared types of columns, and how values of Postgres are read.
import type { ColumnType } from '../../../model/vocabulary.ts';
import { types, type CustomTypesConfig } from 'pg';

/** Declared types, chosen by what BI clients read correctly. */
export const DECLARED_TYPES: Readonly<Record<ColumnType, string>> = {
  boolean: 'boolean',
  integer: 'bigint',
  double: 'double precision',
  numeric: 'numeric',
  date: 'date',
  timestamp: 'timestamptz',
  text: 'text',
  json: 'jsonb',
};

/** The types that are read in another way than by `pg`. */
const OID = { int8: 20, json: 114, date: 1082, timestamp: 1114, timestamptz: 1184, jsonb: 3802 } as const;

/** Converts the text of a column to its value. */
const PARSERS: Readonly<Record<number, (text: string) => unknown>> = {
  // Our counts, versions and tokens stay below 2^53; a source's integers may not.
  [OID.int8]: (text) => (Number.isSafeInteger(Number(text)) ? Number(text) : BigInt(text)),
  [OID.json]: String,
  [OID.jsonb]: String,
  [OID.date]: String,
  [OID.timestamp]: (text) => `${text.slice(0, 19)}.${text.slice(20, 23).padEnd(3, '0')}`,
  [OID.timestamptz]: utcText,
};

/** Reads times as UTC text `YYYY-MM-DD HH:MM:SS.SSS`, bigints as numbers, and all other types as `pg` does. */
export const VALUE_PARSERS: CustomTypesConfig = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') =>
    (format === 'binary' ? undefined : PARSERS[oid]) ?? types.getTypeParser(oid, format ?? 'text'),
};

/** Converts `2026-11-21 22:04:29.12+01`, for any zone of the session. */
function utcText(text: string): string {
  const at = new Date(text.replace(' ', 'T').replace(/([+-]\d\d)$/, '$1:00'));
  return Number.isNaN(at.getTime()) ? text : at.toISOString().replace('T', ' ').replace('Z', '');
}
