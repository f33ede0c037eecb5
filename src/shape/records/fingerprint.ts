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
const COLON = 58;
const ZERO = 48;
const TEN = 10;
/** A length with its quote and colon. */
const LENGTH_BYTES = 20;

/** The members of an object in the order of their keys. */
interface Order {
  keys: readonly string[];
  sorted: readonly { key: string; label: string }[];
}

/**
 * A value as bytes that do not depend on the order of keys: sorted keys, and texts by their length instead of escapes.
 * This runs for each record if no bodies are kept, so the buffer and the orders are kept for the next record: records
 * of a page have their keys in the same order.
 */
class CanonicalText {
  #bytes = Buffer.allocUnsafe(FIRST_BYTES);
  #length = 0;
  /** By the ordinal number of the object within its value. */
  readonly #orders: Order[] = [];
  #objects = 0;

  /** Valid until the next call. */
  of(value: JsonValue): Buffer {
    if (this.#bytes.length > MOST_KEPT_BYTES) this.#bytes = Buffer.allocUnsafe(FIRST_BYTES);
    this.#length = 0;
    this.#objects = 0;
    this.#add(value, 0);
    return this.#bytes.subarray(0, this.#length);
  }

  #add(value: JsonValue, depth: number): void {
    if (typeof value === 'string') {
      this.#writeLength(value.length);
      this.#write(value);
    } else if (typeof value !== 'object' || value === null) {
      this.#write(Object.is(value, -0) ? '-0' : String(value));
    } else if (isExact(value)) this.#write(value.rawJSON);
    else if (depth > MAX_DEPTH) this.#write('…');
    else if (Array.isArray(value)) this.#addArray(value, depth);
    else this.#addObject(value, depth);
  }

  #addArray(value: readonly JsonValue[], depth: number): void {
    this.#write('[');
    for (const element of value) {
      this.#add(element, depth + 1);
      this.#write(',');
    }
    this.#write(']');
  }

  #addObject(value: JsonObject, depth: number): void {
    this.#write('{');
    for (const { key, label } of this.#orderOf(value).sorted) {
      const field = value[key];
      if (field === undefined) continue;
      this.#write(label);
      this.#add(field, depth + 1);
      this.#write(',');
    }
    this.#write('}');
  }

  #orderOf(value: JsonObject): Order {
    const keys = Object.keys(value);
    const nth = this.#objects++;
    const known = this.#orders[nth];
    if (known !== undefined && isSame(known.keys, keys)) return known;
    const order = { keys, sorted: keys.toSorted().map((key) => ({ key, label: `${key.length}:${key}=` })) };
    if (nth < MOST_KEPT_ORDERS) this.#orders[nth] = order;
    return order;
  }

  /** Written digit by digit, because a text would be made anew for each value. */
  #writeLength(length: number): void {
    this.#makeRoom(LENGTH_BYTES);
    this.#bytes[this.#length++] = QUOTE;
    let unit = 1;
    while (unit * TEN <= length) unit *= TEN;
    for (; unit >= 1; unit = Math.floor(unit / TEN)) {
      this.#bytes[this.#length++] = ZERO + (Math.floor(length / unit) % TEN);
    }
    this.#bytes[this.#length++] = COLON;
  }

  #write(text: string): void {
    this.#makeRoom(text.length * UNIT_BYTES);
    const short = text.length < SHORT ? writeAscii(this.#bytes, this.#length, text) : 0;
    this.#length += short > 0 ? short : this.#bytes.write(text, this.#length);
  }

  #makeRoom(by: number): void {
    const needed = this.#length + by;
    if (needed <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(2 * needed);
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }
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
