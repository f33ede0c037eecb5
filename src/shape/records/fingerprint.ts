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
const SHORT = 24;
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

/** The members of an object in the order of their keys. */
interface Order {
  keys: readonly string[];
  sorted: readonly string[];
  /** What is written before each value: the key by its length. */
  labels: readonly Buffer[];
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

  /** Valid until the next call. */
  of(value: JsonValue): Buffer {
    if (this.#bytes.length > MOST_KEPT_BYTES) this.#bytes = Buffer.allocUnsafe(FIRST_BYTES);
    this.#objects = 0;
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

  #addText(text: string, at: number): number {
    const from = writeLength(this.#withRoom(at, 0), at, text.length);
    return this.#write(text, from);
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
    const { sorted, labels } = this.#orderOf(object);
    let at = from;
    this.#withRoom(at, 0)[at++] = OPEN_BRACE;
    for (let nth = 0; nth < sorted.length; nth += 1) {
      const field = object[sorted[nth] ?? ''];
      const label = labels[nth];
      if (field === undefined || label === undefined) continue;
      const bytes = this.#withRoom(at, label.length);
      for (let index = 0; index < label.length; index += 1) bytes[at + index] = label[index] ?? 0;
      at = this.#add(field, at + label.length, depth + 1);
      this.#withRoom(at, 0)[at++] = COMMA;
    }
    this.#withRoom(at, 0)[at++] = CLOSE_BRACE;
    return at;
  }

  #orderOf(value: JsonObject): Order {
    const keys = Object.keys(value);
    const nth = this.#objects++;
    const known = this.#orders[nth];
    if (known !== undefined && isSame(known.keys, keys)) return known;
    const sorted = keys.toSorted();
    const order = { keys, sorted, labels: sorted.map((key) => Buffer.from(`${key.length}:${key}=`)) };
    if (nth < MOST_KEPT_ORDERS) this.#orders[nth] = order;
    return order;
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
  for (; unit >= 1; unit = Math.floor(unit / TEN)) bytes[at++] = ZERO + (Math.floor(length / unit) % TEN);
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

function isSame(a: readonly string[], b: readonly string[]): boolean {
  if (a.length !== b.length) return false;
  for (let at = 0; at < a.length; at += 1) if (a[at] !== b[at]) return false;
  return true;
}

const canonical = new CanonicalText();

/** Equal for all values that `sameJson` holds equal. */
export function canonicalHash(value: JsonValue): string {
  return textHash(canonical.of(value));
}
