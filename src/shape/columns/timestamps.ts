import type { JsonValue } from '../../model/json.ts';
import type { TimeZone } from '../../model/time-zone.ts';
import { fitsDouble, isExact } from '../json/exact-number.ts';
import { isDay, plainMoment, plainTimestamp } from './plain-times.ts';

/** A moment as read from the source. */
export interface Instant {
  epochMs: number;
  /** For a local time that occurs twice or not at all: the later moment that it may mean. */
  latestMs?: number;
  /** The part below the millisecond: 0 to 999,999 nanoseconds. */
  nanos: number;
}

interface Parts {
  year: number;
  month: number;
  day: number;
  hour: number;
  minute: number;
  second: number;
  /** Fraction of the second, 0 to 999,999,999. */
  nanos: number;
  offsetMinutes: number;
  /** True for a date and time that names neither a zone nor an offset. */
  isLocal: boolean;
}

const DATE_LENGTH = 10;
/** Other counts of digits are more likely a number, or a date such as `20261127120000`. */
const UNIX_TEXT = /^(?:\d{10}(?:\.\d{1,9})?|\d{13}|\d{16})$/;
const EARLIEST = Date.parse('0001-01-01T00:00:00Z');
const LATEST = Date.parse('9999-12-31T23:59:59.999Z');

/**
 * Reads a moment as sources write it: ISO 8601 date or date and time (`Z`, `±hh:mm`, or local, which is read in `zone`,
 * as UTC without one), or a Unix time in seconds (< 10^11), milliseconds (< 10^14) or microseconds (< 10^17), by
 * its size; as a text only with the digits that these have since 2001. A date alone is its first moment in UTC, as its cell is. Null for anything else and for moments that
 * no calendar has.
 */
export function parseInstant(moment: JsonValue | undefined, zone: TimeZone | null = null): Instant | null {
  if (typeof moment === 'number') return epochInstant(moment);
  if (typeof moment !== 'string') {
    return isExact(moment) && fitsDouble(moment.rawJSON) ? epochInstant(Number(moment.rawJSON)) : null;
  }
  const plain = plainMoment(moment);
  if (!Number.isNaN(plain)) return { epochMs: plain, nanos: 0 };
  const parts = readParts(moment);
  if (parts === null) return UNIX_TEXT.test(moment) ? epochInstant(Number(moment)) : null;
  const nanos = parts.nanos % 1e6;
  const epochMs = momentOf(parts, zone);
  if (!inRange(epochMs)) return null;
  const spread = zone === null || !parts.isLocal ? 0 : zone.spread(epochOf(parts));
  return spread === 0 ? { epochMs, nanos } : { epochMs, nanos, latestMs: epochMs + spread };
}

/** True for a date and time without `Z` or an offset: what it means depends on the place. */
export function isLocalTime(text: string): boolean {
  return readParts(text)?.isLocal ?? false;
}

/**
 * The text of a timestamp cell: UTC, `YYYY-MM-DD HH:MM:SS`, with `.SSS` or `.SSSSSS` only if there are milliseconds or
 * microseconds (the rest is cut off; the version's body keeps it). A database may keep less. A local time is read in `zone`, as UTC without one. Null unless `text`
 * is an ISO 8601 date and time between the years 1 and 9999: no leap second, no 24:00, no date alone.
 */
export function toTimestampText(text: string, zone: TimeZone | null = null): string | null {
  if (text.length <= DATE_LENGTH) return null;
  const plain = plainTimestamp(text);
  if (plain !== null) return plain;
  const parts = readParts(text);
  if (parts === null) return null;
  const isUtc = parts.offsetMinutes === 0 && (zone === null || !parts.isLocal);
  if (isUtc) return `${text.slice(0, DATE_LENGTH)} ${clockText(text)}${fractionText(parts.nanos)}`;
  const epochMs = momentOf(parts, zone);
  if (!inRange(epochMs)) return null;
  return `${new Date(epochMs).toISOString().slice(0, 19).replace('T', ' ')}${fractionText(parts.nanos)}`;
}

/** The text itself if it is a date of the calendar, `YYYY-MM-DD`, else null. */
export function toDateText(text: string): string | null {
  return text.length === DATE_LENGTH && isDay(text) ? text : null;
}

function clockText(text: string): string {
  return text.charCodeAt(16) === 58 ? text.slice(11, 19) : `${text.slice(11, 16)}:00`;
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

const MS_OF_400_YEARS = 146_097 * 86_400_000;

function epochOf(parts: Parts): number {
  const { year, month, day, hour, minute, second, nanos, offsetMinutes } = parts;
  // `Date.UTC` takes the years 1 to 99 for 1901 to 1999; the same days come again after 400 years.
  const later = Date.UTC(year + 400, month - 1, day, hour, minute - offsetMinutes, second, Math.floor(nanos / 1e6));
  return later - MS_OF_400_YEARS;
}

/**
 * A local time that its zone would move out of the calendar is not moved: services use the first and the last moment
 * that can be written for "none".
 */
function momentOf(parts: Parts, zone: TimeZone | null): number {
  const written = epochOf(parts);
  if (zone === null || !parts.isLocal) return written;
  const moved = zone.earliest(written);
  return inRange(moved) ? moved : written;
}

/** Character by character, because it runs for each timestamp cell: 20 times faster than a regular expression. */
function readParts(text: string): Parts | null {
  if (!isDay(text)) return null;
  const year = twoDigits(text, 0) * 100 + twoDigits(text, 2);
  const month = twoDigits(text, 5);
  const day = twoDigits(text, 8);
  const parts = { year, month, day, hour: 0, minute: 0, second: 0, nanos: 0, offsetMinutes: 0, isLocal: false };
  return text.length === DATE_LENGTH || readClock(text, parts) ? parts : null;
}

/** Reads `T08:49[:39[.676]][zone]` from position 10 into `parts`; false if it is anything else. */
function readClock(text: string, parts: Parts): boolean {
  const separator = text.charCodeAt(DATE_LENGTH);
  // 'T', 't' or a space.
  if (separator !== 84 && separator !== 116 && separator !== 32) return false;
  parts.hour = twoDigits(text, 11);
  parts.minute = text.charCodeAt(13) === 58 ? twoDigits(text, 14) : NaN;
  let at = 16;
  if (text.charCodeAt(at) === 58) {
    parts.second = twoDigits(text, 17);
    at = 19;
    if (text.charCodeAt(at) === 46) at = readFraction(text, parts);
  }
  return parts.hour <= 23 && parts.minute <= 59 && parts.second <= 59 && at > 0 && readZone(text, at, parts);
}

/** Reads one to nine digits after the point at position 19; the position after them, or -1. */
function readFraction(text: string, parts: Parts): number {
  let at = 20;
  let fraction = 0;
  let unit = 1e9;
  for (let digit = digitAt(text, at); digit >= 0; digit = digitAt(text, ++at)) {
    fraction = fraction * 10 + digit;
    unit /= 10;
  }
  parts.nanos = fraction * unit;
  return at > 20 && at <= 29 ? at : -1;
}

function readZone(text: string, at: number, parts: Parts): boolean {
  parts.isLocal = at === text.length;
  if (parts.isLocal) return true;
  const sign = text.charCodeAt(at);
  // 'Z' or 'z', then '+' and '-'.
  if (sign === 90 || sign === 122) return text.length === at + 1;
  if (sign !== 43 && sign !== 45) return false;
  const hours = twoDigits(text, at + 1);
  const minutesAt = at + (text.charCodeAt(at + 3) === 58 ? 4 : 3);
  const minutes = minutesAt === text.length ? 0 : twoDigits(text, minutesAt);
  if (!(hours <= 23 && minutes <= 59)) return false;
  parts.offsetMinutes = (hours * 60 + minutes) * (sign === 45 ? -1 : 1);
  return minutesAt === text.length ? minutesAt === at + 3 : minutesAt + 2 === text.length;
}

/** NaN unless two digits stand at `at`, so that every comparison with it is false. */
function twoDigits(text: string, at: number): number {
  const tens = digitAt(text, at);
  const ones = digitAt(text, at + 1);
  return tens < 0 || ones < 0 ? NaN : tens * 10 + ones;
}

function digitAt(text: string, at: number): number {
  const digit = text.charCodeAt(at) - 48;
  return digit >= 0 && digit <= 9 ? digit : -1;
}
