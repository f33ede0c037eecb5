import type { JsonObject, JsonValue } from '../../model/json.ts';
import { isObject } from './field-at.ts';

/** Which objects are wrappers, and the member that holds their value. */
export type UnwrapRule =
  /** An object with this member and no other. */
  | { only: string }
  /** An object whose `field` is `equals`. */
  | { field: string; equals: string | number | boolean; value: string }
  /** An object with no members but these, of which some may be missing. */
  | { keys: readonly string[]; value: string };

/** Deeper levels stay as they are: such a record is rejected (`record-limits.ts`). */
const MOST_LEVELS = 100;

/**
 * The record with each wrapper in it replaced by its value, from the outside to the inside: the first rule that fits
 * an object counts, and what it held is looked at again. The record itself is no wrapper. Returns the same object if
 * it holds none.
 */
export function unwrapped(record: JsonValue, rules: readonly UnwrapRule[]): JsonValue {
  return rules.length === 0 ? record : withMembers(record, rules, 1);
}

function unwrapValue(value: JsonValue, rules: readonly UnwrapRule[], level: number): JsonValue {
  if (typeof value !== 'object' || value === null || level > MOST_LEVELS) return value;
  const rule = isObject(value) ? rules.find((each) => fits(each, value)) : undefined;
  if (rule === undefined || !isObject(value)) return withMembers(value, rules, level + 1);
  return unwrapValue(memberOf(value, 'only' in rule ? rule.only : rule.value) ?? null, rules, level + 1);
}

function fits(rule: UnwrapRule, object: JsonObject): boolean {
  if ('field' in rule) return memberOf(object, rule.field) === rule.equals && Object.hasOwn(object, rule.value);
  const keys = Object.keys(object);
  if ('only' in rule) return keys.length === 1 && keys[0] === rule.only;
  return keys.length > 0 && keys.every((key) => rule.keys.includes(key));
}

function memberOf(object: JsonObject, key: string): JsonValue | undefined {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

function withMembers(value: JsonValue, rules: readonly UnwrapRule[], level: number): JsonValue {
  if (Array.isArray(value)) {
    const elements = value.map((element) => unwrapValue(element, rules, level));
    return elements.some((element, index) => element !== value[index]) ? elements : value;
  }
  if (!isObject(value)) return value;
  const before = Object.entries(value);
  const after = before.map(([key, member]) => [key, unwrapValue(member, rules, level)] as const);
  return after.some(([key, member]) => member !== value[key]) ? Object.fromEntries(after) : value;
}
