import { hash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { JsonValue, JsonObject } from '../../model/json.ts';
import { isExact } from '../json/exact-number.ts';

/** 128 bits of SHA-256, as 32 hex digits. */
export function textHash(text: string | Buffer): string {
  return hash('sha256', text).slice(0, 32);
}

/**
 * True if two values say the same: order of keys and white space do not count, order of elements does; `ExactNumber`s
 * are the same if their digits are. Recurses: only for records within the depth limit.
 */
export function sameJson(a: JsonValue, b: JsonValue): boolean {
  return isDeepStrictEqual(a, b);
}

/** Deeper levels count as equal: such a record is rejected in any case, and nothing may overflow the stack. */
const MAX_DEPTH = 200;
/** Bytes of UTF-8 per UTF-16 unit at most. */
const UNIT_BYTES = 3;
const FIRST_BYTES = 4_096;
/** A larger buffer is not kept for the next record. */
const MOST_KEPT_BYTES = 1_048_576;
const MOST_KEPT_ORDERS = 64;
/** A shorter text is written faster here than by `Buffer.write`. */
const SHORT = 14;
/** Members of the objects that a value is in, for which there is room from one record to the next. */
const MOST_KEPT_VALUES = 1_024;
const ASCII = 128;
const QUOTE = 34;
const COMMA = 44;
const COLON = 58;
const OPEN_BRACKET = 91;
const CLOSE_BRACKET = 93;
const OPEN_BRACE = 123;
const CLOSE_BRACE = 125;
const ZERO = 48;
const TEN = 10;
/** Room that is always there: a text's length with its quote and colon, and a bracket and a comma after it. */
const ROOM = 32;

/** The keys of an object, and their order. */
interface Order {
  keys: readonly string[];
  /** Of each key its place among the sorted ones. */
  ranks: readonly number[];
  /** What is written before each value, one after the other in the order of the sorted keys: the key by its length. */
  labels: Uint8Array;
  /** Where each of them ends. */
  ends: readonly number[];
}

/**
 * A value as bytes that do not depend on the order of keys: sorted keys, and texts by their length instead of escapes.
 * This runs for each record if no bodies are kept, so the buffer and the orders are kept for the next record: records
 * of a page have their keys in the same order. Positions are passed on as numbers, which is faster than a field.
 */
class CanonicalText {
  #bytes = Buffer.allocUnsafe(FIRST_BYTES);
  /** By the ordinal number of the object within its value. */
  readonly #orders: Order[] = [];
  #objects = 0;
  /** The values of the objects under way, those of an inner one behind those of the outer. */
  #values: (JsonValue | undefined)[] = [];
  #valuesEnd = 0;

  /** Valid until the next call. */
  of(value: JsonValue): Buffer {
    if (this.#bytes.length > MOST_KEPT_BYTES) this.#bytes = Buffer.allocUnsafe(FIRST_BYTES);
    if (this.#values.length > MOST_KEPT_VALUES) this.#values = [];
    this.#objects = 0;
    this.#valuesEnd = 0;
    const end = this.#add(value, 0, 0);
    return this.#bytes.subarray(0, end);
  }

  /** Writes a value at a position. Returns the position after it, as all of these do. */
  #add(value: JsonValue, at: number, depth: number): number {
    if (typeof value === 'string') return this.#addText(value, at);
    if (typeof value !== 'object' || value === null)
      return this.#write(Object.is(value, -0) ? '-0' : String(value), at);
    if (depth > MAX_DEPTH && !isExact(value)) return this.#write('…', at);
    if (Array.isArray(value)) return this.#addArray(value, at, depth);
    return isExact(value) ? this.#write(value.rawJSON, at) : this.#addObject(value, at, depth);
  }

  #addText(text: string, from: number): number {
    const { length } = text;
    const bytes = this.#withRoom(from, length * UNIT_BYTES);
    const at = writeLength(bytes, from, length);
    const short = length < SHORT ? writeAscii(bytes, at, text) : 0;
    return at + (short > 0 || length === 0 ? short : bytes.write(text, at));
  }

  #addArray(array: readonly JsonValue[], from: number, depth: number): number {
    let at = from;
    this.#withRoom(at, 0)[at++] = OPEN_BRACKET;
    for (const element of array) {
      at = this.#add(element, at, depth + 1);
      this.#withRoom(at, 0)[at++] = COMMA;
    }
    this.#withRoom(at, 0)[at++] = CLOSE_BRACKET;
    return at;
  }

  #addObject(object: JsonObject, from: number, depth: number): number {
    const base = this.#valuesEnd;
    const { labels, ends } = this.#sort(object, base);
    let at = from;
    let label = 0;
    for (let nth = 0; nth < ends.length; nth += 1) {
      const end = ends[nth] ?? 0;
      const bytes = this.#withRoom(at, end - label);
      while (label < end) bytes[at++] = labels[label++] ?? 0;
      at = this.#add(this.#values[base + nth] ?? null, at, depth + 1);
    }
    this.#valuesEnd = base;
    const bytes = this.#withRoom(at, 0);
    bytes[at++] = ends.length === 0 ? OPEN_BRACE : COMMA;
    bytes[at++] = CLOSE_BRACE;
    return at;
  }

  /** Lays the object's values from `base` on in the order of their keys, which it returns. */
  #sort(object: JsonObject, base: number): Order {
    const nth = this.#objects++;
    const known = this.#orders[nth];
    if (known !== undefined && this.#layAs(known, object, base)) return known;
    const order = orderOf(object);
    if (nth < MOST_KEPT_ORDERS) this.#orders[nth] = order;
    this.#layAs(order, object, base);
    return order;
  }

  /** False if the object's keys are others, or in another order. */
  #layAs({ keys, ranks }: Order, object: JsonObject, base: number): boolean {
    const values = this.#values;
    let count = 0;
    this.#valuesEnd = base + keys.length;
    for (const key in object) {
      if (key !== keys[count]) return false;
      values[base + (ranks[count] ?? 0)] = object[key];
      count += 1;
    }
    return count === keys.length;
  }

  #write(text: string, at: number): number {
    const bytes = this.#withRoom(at, text.length * UNIT_BYTES);
    const short = text.length < SHORT ? writeAscii(bytes, at, text) : 0;
    return at + (short > 0 ? short : bytes.write(text, at));
  }

  /** The buffer with room for so many bytes at a position, and a little more. */
  #withRoom(at: number, by: number): Buffer {
    const needed = at + by + ROOM;
    if (needed <= this.#bytes.length) return this.#bytes;
    const larger = Buffer.allocUnsafe(2 * needed);
    this.#bytes.copy(larger, 0, 0, at);
    this.#bytes = larger;
    return larger;
  }
}

/** Written digit by digit, because a text would be made anew for each value. */
function writeLength(bytes: Buffer, from: number, length: number): number {
  let at = from;
  bytes[at++] = QUOTE;
  let unit = 1;
  while (unit * TEN <= length) unit *= TEN;
  let rest = length;
  for (; unit > 1; unit = (unit / TEN) | 0) {
    const digit = (rest / unit) | 0;
    bytes[at++] = ZERO + digit;
    rest -= digit * unit;
  }
  bytes[at++] = ZERO + rest;
  bytes[at++] = COLON;
  return at;
}

/** Returns the bytes written; 0 if the text holds anything else. */
function writeAscii(bytes: Buffer, from: number, text: string): number {
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code >= ASCII) return 0;
    bytes[from + at] = code;
  }
  return text.length;
}

function orderOf(object: JsonObject): Order {
  const keys = Object.keys(object);
  const sorted = keys.toSorted();
  const places = new Map(sorted.map((key, place) => [key, place]));
  const labels = sorted.map((key, nth) => Buffer.from(`${nth === 0 ? '{' : ','}${key.length}:${key}=`));
  let end = 0;
  const ends = labels.map((label) => (end += label.length));
  return { keys, ranks: keys.map((key) => places.get(key) ?? 0), labels: Buffer.concat(labels), ends };
}

const canonical = new CanonicalText();

/** Equal for all values that `sameJson` holds equal. */
export function canonicalHash(value: JsonValue): string {
  return textHash(canonical.of(value));
}
