import type { JsonObject, JsonValue } from '../../model/json.ts';
import { isExact } from '../json/exact-number.ts';

/** True for a JSON object: no array, no null, no number kept by its digits. */
export function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isExact(value);
}

/** The value at a dotted path through objects ('' is the value itself); undefined if any step is missing. */
export function fieldAt(value: JsonValue, path: string): JsonValue | undefined {
  if (path === '') return value;
  let at: JsonValue | undefined = value;
  for (const key of path.split('.')) {
    if (!isObject(at) || !Object.hasOwn(at, key)) return undefined;
    at = at[key];
  }
  return at;
}

/**
 * True if anything in the value needs a column or a row: a text, a number, a boolean or an element of an array, on any
 * level; false for null, empty arrays and objects without such a value. An element counts whatever it is, so that an
 * array has as many rows when it comes before others as when it comes after them. Recurses: only for records within the
 * depth limit.
 */
export function hasContent(value: JsonValue | undefined): boolean {
  if (value === null || value === undefined) return false;
  if (Array.isArray(value)) return value.length > 0;
  return isObject(value) ? Object.values(value).some(hasContent) : true;
}
