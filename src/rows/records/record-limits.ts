// Rejects records that are too large to process.
import type { JsonObject, JsonValue } from '../../model/json.ts';
import { isExact } from '../json/parse-json.ts';
import { isObject } from './as-record.ts';

/** Levels of objects and arrays in one record; `JSON.stringify` and Postgres's jsonb fail from about 10,000. */
const MAX_DEPTH = 100;
/** Fields and elements of one record, on all levels together. */
const MAX_VALUES = 100_000;
/** Characters of one field name; it is stored with each column and never meant to be longer. */
const MAX_KEY_LENGTH = 1024;

/** Bytes of one record's source; Postgres's jsonb and the one parameter of a page end at 256 MiB. */
const MAX_BYTES = 192 << 20;

/** A record without fields. */
export const NOT_AN_OBJECT: Rejection = { reason: 'not_an_object', detail: 'the record is not a JSON object' };

/**
 * Rejects a record (by its value and the length of its source) that is too deep, too wide, too large or not an object;
 * null for all others, which are safe to recurse into.
 */
export function limitRejection(value: JsonValue, bytes: number): Rejection | null {
  if (!isObject(value)) return NOT_AN_OBJECT;
  if (bytes > MAX_BYTES) return { reason: 'too_large', detail: `a record of more than ${MAX_BYTES} bytes` };
  const count = countObject(value, 1, 0);
  return count <= MAX_VALUES ? null : (REJECTIONS[count] ?? REJECTIONS[Infinity] ?? null);
}

/** Not counts but signs, each above every count. */
const TOO_DEEP = 1e9;
const KEY_TOO_LONG = 2e9;
const REJECTIONS: Record<number, Rejection> = {
  [TOO_DEEP]: { reason: 'too_deep', detail: `nested deeper than ${MAX_DEPTH} levels` },
  [KEY_TOO_LONG]: { reason: 'key_too_long', detail: `a field name of more than ${MAX_KEY_LENGTH} characters` },
  [Infinity]: { reason: 'too_wide', detail: `more than ${MAX_VALUES} fields and elements in one record` },
};

/** The count so far with the object's fields added. Runs for each record, so it stays a plain loop without objects. */
function countObject(object: JsonObject, depth: number, before: number): number {
  if (depth > MAX_DEPTH) return TOO_DEEP;
  let count = before;
  for (const key in object) {
    if (key.length > MAX_KEY_LENGTH) return KEY_TOO_LONG;
    const value = object[key];
    count++;
    if (typeof value === 'object' && value !== null) count = countContainer(value, depth + 1, count);
    if (count > MAX_VALUES) return count;
  }
  return count;
}

function countArray(array: JsonValue[], depth: number, before: number): number {
  if (depth > MAX_DEPTH) return TOO_DEEP;
  let count = before + array.length;
  for (const value of array) {
    if (count > MAX_VALUES) return count;
    if (typeof value === 'object' && value !== null) count = countContainer(value, depth + 1, count);
  }
  return count;
}

function countContainer(value: Exclude<JsonValue, null | string | number | boolean>, depth: number, before: number) {
  if (Array.isArray(value)) return countArray(value, depth, before);
  return isExact(value) ? before : countObject(value, depth, before);
}

/** Why a record is rejected while the rest of its page is loaded; stored with its body in `_sync_rejects`. */
export type RejectReason =
  | 'id_missing'
  | 'id_null'
  | 'id_empty'
  | 'id_type'
  | 'id_too_long'
  | 'id_characters'
  | 'record_missing'
  | 'partition_other'
  | 'not_an_object'
  | 'too_deep'
  | 'too_wide'
  | 'too_large'
  | 'key_too_long'
  | 'contract';

export interface Rejection {
  reason: RejectReason;
  /** One sentence for the operator; names the field, never its value. */
  detail: string;
}
