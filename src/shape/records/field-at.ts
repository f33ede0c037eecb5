import { stepsOf, type PathStep } from '../../model/body-path.ts';
import type { JsonObject, JsonValue } from '../../model/json.ts';
import { isExact } from '../json/exact-number.ts';

/** True for a JSON object: no array, no null, no number kept by its digits. */
export function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isExact(value);
}

/**
 * The value at a path (`model/body-path.ts`; '' is the value itself); undefined if any step is missing or leads to many
 * values.
 */
export function fieldAt(value: JsonValue, path: string): JsonValue | undefined {
  let at: JsonValue | undefined = value;
  for (const step of stepsOf(path)) {
    at = stepInto(at, step);
    if (at === undefined) return undefined;
  }
  return at;
}

/** The value one step further; undefined if there is none. */
export function stepInto(value: JsonValue | undefined, step: PathStep): JsonValue | undefined {
  if (typeof step === 'string') return isObject(value) && Object.hasOwn(value, step) ? value[step] : undefined;
  return typeof step === 'number' && Array.isArray(value) ? value.at(step) : undefined;
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
