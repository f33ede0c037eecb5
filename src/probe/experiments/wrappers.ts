import type { JsonObject, JsonValue } from '../../model/json.ts';
import { isObject } from '../../shape/records/field-at.ts';
import type { UnwrapRule } from '../../shape/records/unwrap.ts';

const SAYS_KIND = /^(?:__type|\$type|_type|@type)$/;
const MOST_LEVELS = 3;

/** Rules for objects that only wrap one plain value: `{ __type: Date, iso: … }`, `{ $oid: … }`. */
export function wrapperRules(records: readonly JsonObject[]): UnwrapRule[] {
  const rules = new Map<string, UnwrapRule>();
  const visit = (value: JsonValue, level: number): void => {
    if (!isObject(value) || level > MOST_LEVELS) return;
    const rule = level === 0 ? null : ruleFor(value);
    if (rule !== null) rules.set(JSON.stringify(rule), rule);
    else for (const below of Object.values(value)) visit(below, level + 1);
  };
  for (const record of records.slice(0, 50)) visit(record, 0);
  return [...rules.values()];
}

function ruleFor(object: JsonObject): UnwrapRule | null {
  const keys = Object.keys(object);
  const [only = ''] = keys;
  if (keys.length === 1) return only.startsWith('$') && isPlain(object[only]) ? { only } : null;
  const field = keys.find((key) => SAYS_KIND.test(key));
  const value = keys.find((key) => key !== field);
  if (keys.length !== 2 || field === undefined || value === undefined || !isPlain(object[value])) return null;
  const equals = object[field];
  return typeof equals === 'string' ? { field, equals, value } : null;
}

function isPlain(value: JsonValue | undefined): boolean {
  return typeof value === 'string' || typeof value === 'number';
}
