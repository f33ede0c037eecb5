import { messageOf, SyncError } from '../../model/errors.ts';
import type { JsonObject, JsonValue } from '../../model/json.ts';
import { hasInexactNumber, keepsDigits } from './exact-number.ts';
import {
  CLOSE_BRACE,
  CLOSE_BRACKET,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  skipSpace,
  stringEnd,
  valueEnd,
} from './scan-json.ts';

/**
 * `JSON.parse`, but numbers whose digits a double does not give back (integers beyond 2^53, decimals with more digits
 * than tell it from others, 1e400) come back as `ExactNumber`. Of equal keys the last one wins; `__proto__` is an
 * ordinary key; `-0` is the double -0. Any depth is accepted: check it against the limit (`record-limits.ts`) before
 * walking it.
 *
 * Throws `SyncError('bad_json')`, to be retried: a broken body is most often a broken transfer.
 */
export function parseJson(text: string): JsonValue {
  try {
    return readText(text);
  } catch (error) {
    throw new SyncError('bad_json', `the body is not valid JSON: ${printable(messageOf(error), text)}`, {
      recovery: 'retry',
      hint: 'If every attempt fails alike, the service or something before it answers with something else than JSON.',
      cause: error,
    });
  }
}

function readText(text: string): JsonValue {
  // Only a text that it accepts may be read by hand.
  const value = JSON.parse(text);
  return hasInexactNumber(text) || mayHaveWrongKey(text, value) ? parseByHand(text, numberOf) : value;
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
  const open: object[] = typeof value === 'object' && value !== null ? [value] : [];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const members: readonly unknown[] = Array.isArray(next) ? next : Object.values(next);
    if (!Array.isArray(next)) for (const key in next) if (key.includes('\\')) return true;
    for (const member of members) if (typeof member === 'object' && member !== null) open.push(member);
  }
  return false;
}

/** The parser's message as one line; it names the position, except at the end of the text. */
function printable(message: string, text: string): string {
  const line = message.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, '·');
  return line.includes('position') ? line : `${line} (${text.length} characters)`;
}

/** Deeper levels become null: a record that deep is rejected in any case, and nothing may overflow the stack. */
const MOST_LEVELS = 500;

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
  if ((first === OPEN_BRACE || first === OPEN_BRACKET) && reader.level < MOST_LEVELS) {
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
