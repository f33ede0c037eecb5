import { hash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { JsonValue } from '../model/json.ts';
import { isExact } from './exact-number.ts';

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

/** Deeper levels count as alike: a record that has them is set aside anyway, and nothing may overflow the stack. */
const MAX_DEPTH = 200;

/** Equal for all values that `sameJson` holds equal. */
export function canonicalHash(value: JsonValue): string {
  return textHash(canonicalText(value, 0));
}

/** Sorted keys; texts by length instead of escapes, because this runs for each record where no body is kept. */
function canonicalText(value: JsonValue, depth: number): string {
  if (typeof value === 'string') return `"${value.length}:${value}`;
  if (typeof value !== 'object' || value === null) return Object.is(value, -0) ? '-0' : String(value);
  if (isExact(value)) return value.rawJSON;
  if (depth > MAX_DEPTH) return '…';
  let text = '';
  if (Array.isArray(value)) {
    for (const element of value) text += `${canonicalText(element, depth + 1)},`;
    return `[${text}]`;
  }
  for (const key of Object.keys(value).toSorted()) {
    const field = value[key];
    if (field !== undefined) text += `${key.length}:${key}=${canonicalText(field, depth + 1)},`;
  }
  return `{${text}}`;
}
