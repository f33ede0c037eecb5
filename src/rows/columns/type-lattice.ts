import type { JsonValue } from '../../model/json.ts';
import type { ColumnType } from '../../model/vocabulary.ts';
import { fitsDouble, isExact, isIntegerSource } from '../json/parse-json.ts';
import { toDateText, toTimestampText } from './timestamps.ts';

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
export function toBigInt(source: string): bigint | null {
  if (source.length > 20 || !isIntegerSource(source)) return null;
  const value = BigInt(source);
  return value >= INT64_MIN && value <= INT64_MAX ? value : null;
}

/** True for a number short enough for a numeric column. */
export function fitsNumeric(source: string): boolean {
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
