// Converts JSON values to the cells of a column (`TO_CELL`), finds the type that a value needs (`narrowestType`, `widen`),
// and reads times as services write them (`parseInstant`): `2026-01-02T03:04:05+01:00` becomes `2026-01-02 02:04:05`.
import type { JsonValue } from '../../model/json.ts';
import type { Cell } from '../../model/table.ts';
import type { TimeZone } from '../../model/time-zone.ts';
import type { ColumnType } from '../../model/vocabulary.ts';
import { fitsDouble, isExact, isIntegerSource, jsonText } from '../json/parse-json.ts';

/** State that conversions share while a page is shaped. */
export interface CellNotes {
  /** Cells in which a NUL or half a surrogate pair was replaced (`repairText`). */
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
  if (typeof value === 'string') return repairText(value, notes);
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
  if (!text.includes('\\u')) return text;
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
 * Returns the narrowest type for the values of both: integer → double → numeric, date → timestamp, json with anything →
 * json, any two others → text.
 */
export function widen(a: ColumnType, b: ColumnType): ColumnType {
  if (a === b) return a;
  if (a === 'json' || b === 'json') return 'json';
  return WIDER[`${a} ${b}`] ?? WIDER[`${b} ${a}`] ?? 'text';
}

/** Returns the narrowest type of a value; null for null. */
export function narrowestType(value: JsonValue): ColumnType | null {
  if (value === null) return null;
  if (typeof value === 'string') return textType(value);
  if (typeof value === 'boolean') return 'boolean';
  if (typeof value === 'number') return Number.isSafeInteger(value) ? 'integer' : 'double';
  if (isExact(value)) return exactType(value.rawJSON);
  return 'json';
}

/** Returns the wider type that a column needs for a value that does not fit. */
export function widenFor(type: ColumnType, value: JsonValue): ColumnType {
  const other = narrowestType(value) ?? type;
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

// Parses the times that services write, and formats them for timestamp columns.

/** A point in time as read from the source. */
interface Instant {
  epochMs: number;
  /** For a local time that occurs twice or not at all: the later of its two readings. */
  latestMs?: number;
  /** The part below the millisecond: 0 to 999,999 nanoseconds. */
  nanos: number;
}

/** A date, or a date and time, as it is written. */
interface WrittenTime {
  /** Epoch milliseconds, without the offset. */
  written: number;
  /** Fraction of the second, 0 to 999,999,999. */
  nanos: number;
  offsetMinutes: number;
  /** True for a date and time that names neither a zone nor an offset. */
  isLocal: boolean;
}

const DATE_LENGTH = 10;
const DATE = String.raw`(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])`;
const CLOCK = String.raw`([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d)(?:\.(\d{1,9}))?)?`;
const ZONE = String.raw`([Zz])|([+-])([01]\d|2[0-3])(?::?([0-5]\d))?`;
const BEGINS_WITH_DATE = new RegExp(`^${DATE}`);
const TIME = new RegExp(`^${DATE}(?:[Tt ]${CLOCK}(?:${ZONE})?)?$`);
/** The most frequent form, in UTC and on a day that every month has. Converting it is several times faster. */
const PLAIN_UTC =
  /^(?!0000)\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{3})?Z$/;
/** Texts with another number of digits are more likely a number, or a date such as `20261127120000`. */
const UNIX_TEXT = /^(?:\d{10}(?:\.\d{1,9})?|\d{13}|\d{16})$/;
const EARLIEST = Date.parse('0001-01-01T00:00:00Z');
const LATEST = Date.parse('9999-12-31T23:59:59.999Z');

/**
 * Reads a time as sources write it: ISO 8601 date or date and time (`Z`, `±hh:mm`, or local, which is read in `zone`,
 * as UTC without one), or a Unix time in seconds (< 10^11), milliseconds (< 10^14) or microseconds (< 10^17), by
 * its size; as a text only with the digits that these have since 2001. A date alone is midnight in UTC, as its cell is.
 * Null for anything else and for times that the calendar does not have.
 */
export function parseInstant(moment: JsonValue | undefined, zone: TimeZone | null = null): Instant | null {
  if (typeof moment === 'number') return epochInstant(moment);
  if (typeof moment !== 'string') {
    return isExact(moment) && fitsDouble(moment.rawJSON) ? epochInstant(Number(moment.rawJSON)) : null;
  }
  if (PLAIN_UTC.test(moment)) return { epochMs: Date.parse(moment), nanos: 0 };
  const time = readTime(moment);
  if (time === null) return UNIX_TEXT.test(moment) ? epochInstant(Number(moment)) : null;
  const nanos = time.nanos % 1e6;
  const epochMs = toEpochMs(time, zone);
  if (!inRange(epochMs)) return null;
  const spread = zone === null || !time.isLocal ? 0 : zone.spread(time.written);
  return spread === 0 ? { epochMs, nanos } : { epochMs, nanos, latestMs: epochMs + spread };
}

/** True for a date and time without `Z` or an offset. */
export function isLocalTime(text: string): boolean {
  return readTime(text)?.isLocal ?? false;
}

/**
 * The text of a timestamp cell: UTC, `YYYY-MM-DD HH:MM:SS`, with `.SSS` or `.SSSSSS` only if there are milliseconds or
 * microseconds; the rest is cut off. A local time is read in `zone`, or as UTC. Null unless `text` is an ISO 8601 date and
 * time between the years 1 and 9999: no leap second, no 24:00, no date alone.
 */
export function toTimestampText(text: string, zone: TimeZone | null = null): string | null {
  if (text.length <= DATE_LENGTH) return null;
  if (PLAIN_UTC.test(text)) return `${text.slice(0, 10)} ${text.slice(11, -1)}`.replace('.000', '');
  const time = readTime(text);
  if (time === null) return null;
  const epochMs = toEpochMs(time, zone);
  if (!inRange(epochMs)) return null;
  return `${new Date(epochMs).toISOString().slice(0, 19).replace('T', ' ')}${fractionText(time.nanos)}`;
}

/** The text itself if it is a date of the calendar, `YYYY-MM-DD`, else null. */
export function toDateText(text: string): string | null {
  return text.length === DATE_LENGTH && isDay(text) ? text : null;
}

function fractionText(nanos: number): string {
  const micros = Math.floor(nanos / 1e3);
  if (micros % 1e3 !== 0) return `.${String(micros).padStart(6, '0')}`;
  return micros === 0 ? '' : `.${String(micros / 1e3).padStart(3, '0')}`;
}

function epochInstant(moment: number): Instant | null {
  const size = Math.abs(moment);
  const microseconds = Math.floor(size < 1e11 ? moment * 1e6 : size < 1e14 ? moment * 1e3 : moment);
  const epochMs = Math.floor(microseconds / 1e3);
  return size < 1e17 && inRange(epochMs) ? { epochMs, nanos: (microseconds - epochMs * 1e3) * 1e3 } : null;
}

function inRange(epochMs: number): boolean {
  return epochMs >= EARLIEST && epochMs <= LATEST;
}

/**
 * A local time that its zone would move out of the calendar is read as UTC: services write the first and the last possible
 * time for "none".
 */
function toEpochMs({ written, offsetMinutes, isLocal }: WrittenTime, zone: TimeZone | null): number {
  if (zone === null || !isLocal) return written - offsetMinutes * 60_000;
  const moved = zone.earliest(written);
  return inRange(moved) ? moved : written;
}

function readTime(text: string): WrittenTime | null {
  const found = TIME.exec(text);
  if (found === null) return null;
  const [, year, month, date, hour, minute, second, fraction, utc, sign, hours, minutes] = found;
  const day = startOfDay(Number(year), Number(month), Number(date));
  if (day === null) return null;
  if (hour === undefined) return { written: day, nanos: 0, offsetMinutes: 0, isLocal: false };
  const seconds = (Number(hour) * 60 + Number(minute)) * 60 + Number(second ?? 0);
  const nanos = fraction === undefined ? 0 : Number(fraction.padEnd(9, '0'));
  const written = day + seconds * 1_000 + Math.floor(nanos / 1e6);
  if (sign === undefined) return { written, nanos, offsetMinutes: 0, isLocal: utc === undefined };
  const offset = Number(hours) * 60 + Number(minutes ?? 0);
  return { written, nanos, offsetMinutes: sign === '-' ? -offset : offset, isLocal: false };
}

/** True if the first ten characters are a date of the calendar between the years 1 and 9999. */
export function isDay(text: string): boolean {
  const found = BEGINS_WITH_DATE.exec(text);
  return found !== null && startOfDay(Number(found[1]), Number(found[2]), Number(found[3])) !== null;
}

const SHORTEST_MONTH = 28;
const MS_OF_400_YEARS = 146_097 * 86_400_000;

/** Epoch milliseconds of the begin of a day in UTC; null if the calendar has none. */
function startOfDay(year: number, month: number, day: number): number | null {
  // `Date.UTC` reads the years 1 to 99 as 1901 to 1999; the calendar repeats after 400 years.
  const later = Date.UTC(year + 400, month - 1, day);
  const isThere = year > 0 && (day <= SHORTEST_MONTH || new Date(later).getUTCDate() === day);
  return isThere ? later - MS_OF_400_YEARS : null;
}
