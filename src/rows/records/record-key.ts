// Reads the key of a record, which identifies its row (`recordKey`), and hashes records to find out whether they changed.
import { hash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { ExactNumber, JsonValue } from '../../model/json.ts';
import { isExact, isIntegerSource } from '../json/parse-json.ts';
import { fieldAt, type Rejection, type RejectReason } from './as-record.ts';

/** Postgres refuses index entries from 2,700 bytes; a thousand leaves room for composed and child keys. */
const MAX_KEY_BYTES = 1000;

/** The identity of a record as text; or the rejection of a record without one. */
export type RecordKey = { key: string } | { reject: Rejection };

/**
 * The record's identity at the dotted path `id`. A text is taken as it is, an integer by its source digits (so 5 and
 * "5" are one key); null, the empty text and a missing field are rejected.
 *
 * Several paths make one key, the JSON array of their values, in which a part may be null or empty, as in reports. Null,
 * "" and "null" are three different parts, 5 and "5" are one. A missing part is rejected, because the profile may have
 * misspelled it.
 */
export function recordKey(value: JsonValue, id: string | string[]): RecordKey {
  if (typeof id === 'string') return singleKey(value, id);
  const parts: (string | null)[] = [];
  for (const path of id) {
    const field = fieldAt(value, path);
    if (field === null || field === '') {
      parts.push(field);
      continue;
    }
    const part = keyPart(field, path);
    if ('reject' in part) return part;
    parts.push(part.key);
  }
  const unfit = parts.find((part) => part !== null && !isCleanText(part));
  return withinLimits(unfit ?? JSON.stringify(parts), id.join(', '));
}

/** The record's key as text; null for a record without one. */
export function keyIn(value: JsonValue, { id }: { id: string | string[] }): string | null {
  const found = recordKey(value, id);
  return 'key' in found ? found.key : null;
}

/** The key from one field. */
function singleKey(value: JsonValue, path: string): RecordKey {
  const field = fieldAt(value, path);
  if (field === null) return rejected('id_null', `${path} is null`);
  if (field === '') return rejected('id_empty', `${path} is the empty text`);
  const part = keyPart(field, path);
  return 'reject' in part ? part : withinLimits(part.key, path);
}

/** The text of one field of a key. */
function keyPart(field: Exclude<JsonValue, null> | undefined, path: string): RecordKey {
  if (field === undefined) return rejected('id_missing', `no field ${path}`);
  if (typeof field === 'string') return { key: field };
  if (typeof field === 'number' && Number.isSafeInteger(field)) return { key: String(field) };
  if (isExact(field) && isIntegerSource(field.rawJSON)) return { key: field.rawJSON };
  return rejected('id_type', `${path} is ${kindOf(field)}, expected a text or an integer`);
}

function withinLimits(key: string, path: string): RecordKey {
  if (!isCleanText(key)) return rejected('id_characters', `${path} holds a NUL or half a surrogate pair`);
  // A character is at most three bytes of UTF-8, so short ids need no counting.
  if (key.length * 3 <= MAX_KEY_BYTES || Buffer.byteLength(key) <= MAX_KEY_BYTES) return { key };
  return rejected('id_too_long', `${path} takes ${Buffer.byteLength(key)} bytes, at most ${MAX_KEY_BYTES} fit`);
}

function isCleanText(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0');
}

function kindOf(value: boolean | number | JsonValue[] | ExactNumber | object): string {
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'number' || isExact(value)) return 'a number with a fraction or exponent';
  return typeof value === 'boolean' ? 'a boolean' : 'an object';
}

function rejected(reason: RejectReason, detail: string): RecordKey {
  return { reject: { reason, detail } };
}

export const KEY_FINGERPRINT_BYTES = 8;

const FNV_PRIME = 0x01000193;

/**
 * Hashes each key to eight bytes, one after the other: two 32-bit hashes (FNV-1a with different starts, each mixed at the
 * end as MurmurHash3 does). `_sync_seen` stores them, so another hash would break the scans in progress at an upgrade: no
 * row would count as seen.
 */
export function keyFingerprints(keys: readonly string[]): Buffer {
  const halves = new Int32Array(keys.length * 2);
  for (const [at, key] of keys.entries()) {
    let first = 0x811c9dc5;
    let second = 0x2c1b3c6d;
    for (let index = 0; index < key.length; index += 1) {
      const unit = key.charCodeAt(index);
      first = Math.imul(first ^ unit, FNV_PRIME);
      second = Math.imul(second ^ unit, FNV_PRIME);
    }
    halves[2 * at] = mixBits(first);
    halves[2 * at + 1] = mixBits(second);
  }
  return Buffer.from(halves.buffer);
}

function mixBits(hashed: number): number {
  let mixed = Math.imul(hashed ^ (hashed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return mixed ^ (mixed >>> 16);
}

/** 128 bits of SHA-256, as 32 hex digits. */
export function textHash(text: string | Buffer): string {
  return hash('sha256', text).slice(0, 32);
}

/**
 * True if two values are equal, in any order of keys; `ExactNumber`s are equal if their digits are. Recurses: only for
 * records within the depth limit.
 */
export function sameJson(a: JsonValue, b: JsonValue): boolean {
  return isDeepStrictEqual(a, b);
}

/** Deeper levels count as equal: such a record is rejected in any case, and nothing may overflow the stack. */
const MAX_DEPTH = 200;

/**
 * A value as text that does not depend on the order of keys: sorted keys, and texts by their length instead of escapes.
 * Hashes of it are stored: changing a character of it makes every record look changed.
 */
function canonicalText(value: JsonValue, depth = 0): string {
  if (typeof value === 'string') return `"${value.length}:${value}`;
  if (typeof value !== 'object' || value === null) return Object.is(value, -0) ? '-0' : String(value);
  if (isExact(value)) return value.rawJSON;
  if (depth > MAX_DEPTH) return '…';
  if (Array.isArray(value)) return `[${value.map((element) => `${canonicalText(element, depth + 1)},`).join('')}]`;
  const keys = Object.keys(value).toSorted();
  const members = keys.map((key) => `${key.length}:${key}=${canonicalText(value[key] ?? null, depth + 1)},`);
  return `{${members.join('')}}`;
}

/** The same hash for all values that are equal by `sameJson`. */
export function canonicalHash(value: JsonValue): string {
  return textHash(canonicalText(value));
}
