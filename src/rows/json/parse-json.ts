// Parses JSON without losing digits of numbers (`parseJson`): an id such as 12345678901234567890 stays exact. Also finds
// where values begin and end in the bytes of a JSON text (`valueEnd`).
import { messageOf, SyncError } from '../../model/errors.ts';
import type { ExactNumber, JsonObject, JsonValue } from '../../model/json.ts';

/**
 * `JSON.parse`, but numbers whose digits a double does not give back (integers beyond 2^53, decimals with more digits
 * than tell it from others, 1e400) come back as `ExactNumber`. Of equal keys the last one wins; `__proto__` is an
 * ordinary key; `-0` is the double -0. Any depth is accepted: check it with `limitRejection` before
 * walking it.
 *
 * Throws `SyncError('bad_json')`, to be retried: a broken body is most often a broken transfer.
 */
export function parseJson(text: string): JsonValue {
  try {
    // Only a text that `JSON.parse` accepts may be read by hand.
    const value = JSON.parse(text);
    return hasInexactNumber(text) || mayHaveWrongKey(text, value) ? parseByHand(text, numberOf) : value;
  } catch (error) {
    throw new SyncError('bad_json', `the body is not valid JSON: ${printable(messageOf(error), text)}`, {
      recovery: 'retry',
      hint: 'If every attempt fails alike, the service or something before it answers with something else than JSON.',
      cause: error,
    });
  }
}

function numberOf(source: string): JsonValue {
  return keepsDigits(source) ? Number(source) : JSON.rawJSON(source);
}

/**
 * True if `JSON.parse` may have taken one key for another (nodejs/node#63785). V8 guesses a key by the objects that it
 * has made before and compares its guess with as much of the key's source, escapes undecoded: if a `\` has followed the
 * same keys before, `"\n"` and `"\u0061"` are read as `\`. A wrong guess therefore holds a backslash itself, and
 * there is none without a backslash in the text. Does not recurse: any depth is fine.
 */
function mayHaveWrongKey(text: string, value: JsonValue): boolean {
  if (!text.includes('\\')) return false;
  const toVisit: object[] = typeof value === 'object' && value !== null ? [value] : [];
  for (let next = toVisit.pop(); next !== undefined; next = toVisit.pop()) {
    const members: readonly unknown[] = Array.isArray(next) ? next : Object.values(next);
    if (!Array.isArray(next)) for (const key in next) if (key.includes('\\')) return true;
    for (const member of members) if (typeof member === 'object' && member !== null) toVisit.push(member);
  }
  return false;
}

/** The parser's message as one line; it names the position, except at the end of the text. */
function printable(message: string, text: string): string {
  const line = message.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, '·');
  return line.includes('position') ? line : `${line} (${text.length} characters)`;
}

/** Deeper levels become null: a record that deep is rejected in any case, and nothing may overflow the stack. */
const MAX_LEVELS = 500;

const MINUS = 45;
const ZERO = 48;
const NINE = 57;

/** A text being read, and the position in it. */
interface Reader {
  bytes: Buffer;
  at: number;
  /** Containers around the position. */
  level: number;
  numberOf: (source: string) => JsonValue;
}

/**
 * Parses a text that `JSON.parse` has accepted, several times slower: `JSON.parse` reads single strings only, so it
 * cannot take one key for another. `numberOf` makes the value of a number's source.
 */
function parseByHand(text: string, numberOf: (source: string) => JsonValue): JsonValue {
  const bytes = Buffer.from(text);
  return readValue({ bytes, at: skipSpace(bytes, 0), level: 0, numberOf });
}

/** Reads the value at the reader's position, and moves it past the white space after the value. */
function readValue(reader: Reader): JsonValue {
  const { bytes, at } = reader;
  const first = bytes[at] ?? 0;
  if ((first === OPEN_BRACE || first === OPEN_BRACKET) && reader.level < MAX_LEVELS) {
    reader.level += 1;
    const container = first === OPEN_BRACE ? readObject(reader) : readArray(reader);
    reader.level -= 1;
    return container;
  }
  const source = take(reader, valueEnd(bytes, at));
  const isNumber = first === MINUS || (first >= ZERO && first <= NINE);
  if (isNumber) return reader.numberOf(source);
  return first === OPEN_BRACE || first === OPEN_BRACKET ? null : JSON.parse(source);
}

function readArray(reader: Reader): JsonValue[] {
  const array: JsonValue[] = [];
  step(reader);
  while (reader.bytes[reader.at] !== CLOSE_BRACKET) {
    array.push(readValue(reader));
    if (reader.bytes[reader.at] !== CLOSE_BRACKET) step(reader);
  }
  step(reader);
  return array;
}

function readObject(reader: Reader): JsonObject {
  const object: JsonObject = {};
  step(reader);
  while (reader.bytes[reader.at] === QUOTE) {
    const key = String(JSON.parse(take(reader, stringEnd(reader.bytes, reader.at))));
    step(reader);
    // Not by assignment, which would take `__proto__` for what it is elsewhere.
    const member = { value: readValue(reader), configurable: true, enumerable: true, writable: true };
    Object.defineProperty(object, key, member);
    if (reader.bytes[reader.at] !== CLOSE_BRACE) step(reader);
  }
  step(reader);
  return object;
}

/** The source up to `end`. */
function take(reader: Reader, end: number): string {
  const source = reader.bytes.toString('utf8', reader.at, end);
  reader.at = skipSpace(reader.bytes, end);
  return source;
}

/** Passes a bracket, a comma or a colon. */
function step(reader: Reader): void {
  reader.at = skipSpace(reader.bytes, reader.at + 1);
}

/** True for a number kept by its digits; false for an object of the source that only looks like one. */
export function isExact(value: unknown): value is ExactNumber {
  return JSON.isRawJSON(value);
}

/** Digits that `toPrecision` can write. */
const MAX_PRECISION = 100;
const INTEGER = /^-?\d+$/;

/** True for the digits of an integer without fraction or exponent. */
export function isIntegerSource(source: string): boolean {
  return INTEGER.test(source);
}

/**
 * True if the double nearest to the number that `source` (valid JSON) writes is written with the same digits, as
 * JavaScript writes it: integers up to 2^53 - 1, and decimals in the fewest digits that identify the double.
 * Trailing zeros, the sign of zero and the way of writing (`1E2`) do not count.
 */
function keepsDigits(source: string): boolean {
  const double = Number(source);
  if (!Number.isFinite(double)) return false;
  if (isIntegerSource(source)) return Number.isSafeInteger(double);
  const shortest = String(double);
  return shortest === source || significand(shortest) === significand(source);
}

/**
 * True if a double holds the number: those that keep their digits, and decimals that the double gives back when it is
 * written with as many digits as `source` has, such as 98331783783160.625 (in the fewest digits 98331783783160.62).
 */
export function fitsDouble(source: string): boolean {
  if (keepsDigits(source)) return true;
  const double = Number(source);
  if (!Number.isFinite(double) || isIntegerSource(source)) return false;
  const written = significand(source);
  return written === significand(double.toPrecision(Math.min(written.indexOf('e'), MAX_PRECISION)));
}

/** The digits without leading and trailing zeros, and their power of ten: equal for equal values. */
export function significand(source: string): string {
  const { whole, fraction, exponent } = splitNumber(source);
  const digits = whole + fraction;
  let start = 0;
  let end = digits.length;
  while (digits[start] === '0') start++;
  while (end > start && digits[end - 1] === '0') end--;
  if (start === end) return '0e0';
  return `${digits.slice(start, end)}e${exponent - fraction.length + digits.length - end}`;
}

function splitNumber(source: string): { whole: string; fraction: string; exponent: number } {
  const [mantissa = '', exponent = '0'] = source.toLowerCase().split('e');
  const [whole = '', fraction = ''] = mantissa.replace('-', '').split('.');
  return { whole, fraction, exponent: Number(exponent) };
}

/** A number outside a string with sixteen digits in a row or an exponent of three; in a string it is a false alarm. */
const LONG_NUMBER = /(?<=^|[:,[\s-])(?:[\d.]{16,}(?:[eE][+-]?\d+)?|[\d.]+[eE][+-]?\d{3,})(?=$|[,\]}\s])/g;
/** Finds nearly all texts without such a number, several times faster. */
const MAY_HOLD_LONG_NUMBER = /\d(?:[\d.]{15}|[eE][+-]?\d{3})/;

/** True if the JSON text may hold a number whose digits a double would not give back. */
export function hasInexactNumber(text: string): boolean {
  if (!MAY_HOLD_LONG_NUMBER.test(text)) return false;
  for (const [source] of text.matchAll(LONG_NUMBER)) if (!keepsDigits(source)) return true;
  return false;
}

/*
 * Finds the ends of values in the bytes of a text that `JSON.parse` has already accepted: all that structures JSON is
 * ASCII, so nothing is decoded for it. Nothing is validated and nothing recurses, so any depth is fine.
 */

const SPACE = 32;
export const QUOTE = 34;
export const COMMA = 44;
export const OPEN_BRACKET = 91;
const BACKSLASH = 92;
const CLOSE_BRACKET = 93;
export const OPEN_BRACE = 123;
export const CLOSE_BRACE = 125;

/** A double keeps any number with fewer digits than this. */
export const LONG_DIGITS = 16;

/** True for the code of a digit or a point. */
export function isDigitOrPoint(code: number): boolean {
  return (code >= 48 && code <= 57) || code === 46;
}

/** The first position at or after `at` that is not white space. */
export function skipSpace(bytes: Uint8Array, at: number): number {
  let position = at;
  while ((bytes[position] ?? COMMA) <= SPACE) position++;
  return position;
}

/** The position after the closing quote of the string that opens at `open`. */
export function stringEnd(bytes: Uint8Array, open: number): number {
  let at = open + 1;
  for (; at < bytes.length && bytes[at] !== QUOTE; at++) if (bytes[at] === BACKSLASH) at++;
  return at + 1;
}

/** The position after the value that begins at `start`. */
export function valueEnd(bytes: Uint8Array, start: number): number {
  const first = bytes[start];
  if (first === QUOTE) return stringEnd(bytes, start);
  if (first === OPEN_BRACE || first === OPEN_BRACKET) return containerEnd(bytes, start);
  return literalEnd(bytes, start);
}

function containerEnd(bytes: Uint8Array, start: number): number {
  let depth = 0;
  let at = start;
  while (at < bytes.length) {
    const code = bytes[at];
    if (code === QUOTE) {
      at = stringEnd(bytes, at);
      continue;
    }
    if (code === OPEN_BRACE || code === OPEN_BRACKET) depth++;
    else if ((code === CLOSE_BRACE || code === CLOSE_BRACKET) && --depth === 0) return at + 1;
    at++;
  }
  return at;
}

function literalEnd(bytes: Uint8Array, start: number): number {
  let at = start;
  for (; at < bytes.length; at++) {
    const code = bytes[at] ?? COMMA;
    if (code <= SPACE || code === COMMA || code === CLOSE_BRACKET || code === CLOSE_BRACE) break;
  }
  return at;
}

/** Digits before and after the point that Postgres's jsonb (its numeric) holds. */
const MAX_WHOLE_DIGITS = 131_072;
const MAX_FRACTION_DIGITS = 16_383;
/** A shorter text without such an exponent holds no number beyond these limits. */
const MIN_HUGE_LENGTH = MAX_FRACTION_DIGITS - 999;
const LARGE_EXPONENT = /[eE][+-]?\d{4}/;

/**
 * `JSON.stringify`, but a number beyond what jsonb holds becomes the text of its digits: Postgres would refuse the
 * whole page for it, and SQLite's JSON functions would read it as infinity or zero.
 */
export function jsonText(value: JsonValue): string {
  const text = JSON.stringify(value);
  const mayHoldHuge = text.length > MIN_HUGE_LENGTH || LARGE_EXPONENT.test(text);
  if (!mayHoldHuge) return text;
  return JSON.stringify(value, (_key, part: JsonValue) =>
    isExact(part) && !fitsJsonb(part.rawJSON) ? part.rawJSON : part,
  );
}

function fitsJsonb(source: string): boolean {
  const { whole, fraction, exponent } = splitNumber(source);
  return whole.length + exponent <= MAX_WHOLE_DIGITS && fraction.length - exponent <= MAX_FRACTION_DIGITS;
}
