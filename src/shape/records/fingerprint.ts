import { hash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { JsonValue } from '../../model/json.ts';
import { CanonicalText } from '../json/canonical-text.ts';

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

const canonical = new CanonicalText();

/** Equal for all values that `sameJson` holds equal. */
export function canonicalHash(value: JsonValue): string {
  return textHash(canonical.of(value));
}
