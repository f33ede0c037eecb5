import { hash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { JsonValue } from '../../model/json.ts';
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

/** Equal for all values that `sameJson` holds equal. */
export function canonicalHash(value: JsonValue): string {
  return textHash(canonicalText(value));
}
