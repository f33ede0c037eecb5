// Converts JSON values to cells of each column type, and widens types.
import type { JsonValue } from '../../model/json.ts';
import type { Cell } from '../../model/table.ts';
import type { TimeZone } from '../../model/time-zone.ts';
import type { ColumnType } from '../../model/vocabulary.ts';
import { fitsDouble, isExact, isIntegerSource, jsonText } from '../json/parse-json.ts';
import { toDateText, toTimestampText } from './timestamps.ts';

/** State that conversions share while a page is shaped. */
export interface CellNotes {
  /** True while the record's text holds a `\u` escape: without one there is no NUL and no lone surrogate to look for. */
  suspect: boolean;
  /** Cells in which such characters were replaced. */
  repaired: number;
}

/** Turns a value (never null) into a cell of the row; undefined if the type cannot hold it. */
export type ToCell = (value: JsonValue, notes: CellNotes) => Cell | undefined;

/** How each column type stores a value. */
export const TO_CELL: Record<ColumnType, ToCell> = {
  boolean: (value) => (typeof value === 'boolean' ? value : undefined),
  integer: integerCell,
  double: doubleCell,
  numeric: numericCell,
  date: (value) => (typeof value === 'string' ? (toDateText(value) ?? undefined) : undefined),
  timestamp: (value) => timestampIn(null, value),
  text: textCell,
  json: (value, notes) => repairJson(jsonText(value), notes),
};

/** The conversion of a field whose local times are in `zone`; it accepts the same values. */
export function cellConverter(type: ColumnType, zone: TimeZone | null): ToCell {
  return zone === null || type !== 'timestamp' ? TO_CELL[type] : (value) => timestampIn(zone, value);
}

function integerCell(value: JsonValue): Cell | undefined {
  // Adding zero turns -0 into 0.
  if (typeof value === 'number') return Number.isSafeInteger(value) ? value + 0 : undefined;
  return isExact(value) ? (toBigInt(value.rawJSON) ?? undefined) : undefined;
}

function doubleCell(value: JsonValue): Cell | undefined {
  if (typeof value === 'number') return value;
  return isExact(value) && fitsDouble(value.rawJSON) ? Number(value.rawJSON) : undefined;
}

function numericCell(value: JsonValue): Cell | undefined {
  if (typeof value === 'number') return String(value);
  return isExact(value) && fitsNumeric(value.rawJSON) ? value.rawJSON : undefined;
}

function timestampIn(zone: TimeZone | null, value: JsonValue): Cell | undefined {
  if (typeof value !== 'string') return undefined;
  const text = toTimestampText(value, zone);
  if (text !== null) return text;
  return toDateText(value) === null ? undefined : `${value} 00:00:00`;
}

function textCell(value: JsonValue, notes: CellNotes): Cell | undefined {
  if (typeof value === 'string') return notes.suspect ? repairText(value, notes) : value;
  if (typeof value !== 'object') return String(value);
  return isExact(value) ? value.rawJSON : undefined;
}

/**
 * A NUL becomes the symbol for it (U+2400), half a surrogate pair U+FFFD: Postgres refuses both, SQLite cuts or changes
 * them silently. The version's body keeps what was sent.
 */
function repairText(text: string, notes: CellNotes): string {
  if (text.isWellFormed() && !text.includes('\0')) return text;
  notes.repaired++;
  return text.toWellFormed().replaceAll('\0', '␀');
}

/** Repairs JSON text in the same way: jsonb rejects the same characters, even escaped. */
export function repairJson(text: string, notes: CellNotes): string {
  if (!notes.suspect) return text;
  const repaired = text.replaceAll(/\\(?:u[0-9a-f]{4}|.)/g, repairEscape);
  if (repaired !== text) notes.repaired++;
  return repaired;
}

/** Half a surrogate pair is the only character from U+D800 on that `JSON.stringify` escapes. */
function repairEscape(escape: string): string {
  if (escape === '\\u0000') return '␀';
  return escape.startsWith('\\ud') ? '\ufffd' : escape;
}

const INT64_MIN = -(2n ** 63n);
const INT64_MAX = 2n ** 63n - 1n;
/** Beyond this many digits or powers of ten a number is kept as text; Postgres's numeric ends at 131,072. */
const NUMERIC_LIMIT = 1000;

/** The wider type of two different ones, in either order; other pairs become text. */
const WIDER: Record<string, ColumnType> = {
  'integer double': 'double',
  'integer numeric': 'numeric',
  'double numeric': 'numeric',
  'date timestamp': 'timestamp',
};

/**
 * The narrowest type that holds the values of both: integer → double → numeric, date → timestamp, any two others →
 * text, and json with anything → json. Numeric, text and json hold what fits a double too, by its source digits.
 */
export function widen(a: ColumnType, b: ColumnType): ColumnType {
  if (a === b) return a;
  if (a === 'json' || b === 'json') return 'json';
  return WIDER[`${a} ${b}`] ?? WIDER[`${b} ${a}`] ?? 'text';
}

/** The type a column gets that holds nothing but this value; null for null. */
export function typeOf(value: JsonValue): ColumnType | null {
  if (value === null) return null;
  if (typeof value === 'string') return textType(value);
  if (typeof value === 'boolean') return 'boolean';
  if (typeof value === 'number') return Number.isSafeInteger(value) ? 'integer' : 'double';
  if (isExact(value)) return exactType(value.rawJSON);
  return 'json';
}

/** The type that a column of type `type` needs to hold `value`, which it cannot hold yet. */
export function widenFor(type: ColumnType, value: JsonValue): ColumnType {
  const other = typeOf(value) ?? type;
  // An integer beyond 2^53 is an integer, but a double would lose its last digits.
  if (type === 'double' && other === 'integer') return 'numeric';
  return widen(type, other);
}

/** The value of integer digits that fit 64 bits, else null. */
function toBigInt(source: string): bigint | null {
  if (source.length > 20 || !isIntegerSource(source)) return null;
  const value = BigInt(source);
  return value >= INT64_MIN && value <= INT64_MAX ? value : null;
}

/** True for a number short enough for a numeric column. */
function fitsNumeric(source: string): boolean {
  const exponent = /[eE]([+-]?\d+)$/.exec(source)?.[1] ?? '0';
  return source.length <= NUMERIC_LIMIT && Math.abs(Number(exponent)) <= NUMERIC_LIMIT;
}

function textType(text: string): ColumnType {
  if (toDateText(text) !== null) return 'date';
  return toTimestampText(text) === null ? 'text' : 'timestamp';
}

function exactType(source: string): ColumnType {
  if (toBigInt(source) !== null) return 'integer';
  if (fitsDouble(source)) return 'double';
  return fitsNumeric(source) ? 'numeric' : 'text';
}
