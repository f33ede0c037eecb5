import { isPlainMap } from './file/field-path.ts';

/** The fields of a part of a profile, unchecked. */
export type Fields = Record<string, unknown>;

/** Fields that say of what kind a map is: a map of another kind replaces the base's instead of extending it. */
const KIND_FIELDS = ['style', 'type', 'mode'];

/** What stands below is one thing: of two filters, each in several parameters, half of each would be none. */
const WHOLE_FIELDS = 'incremental';

/**
 * Applies a profile to the one that it extends: maps are merged, texts, numbers and lists replaced. A resource that is
 * set to null is left out, and a `page` of another style replaces the base's page as a whole.
 */
export function extendProfile(base: Fields, over: Fields): Fields {
  const merged = merge(base, over);
  const resources = merged['resources'];
  if (!isPlainMap(resources)) return merged;
  return { ...merged, resources: Object.fromEntries(Object.entries(resources).filter(([, value]) => value !== null)) };
}

/**
 * One map over another: maps are merged, anything else is replaced; so is a map of another kind. `field` is the name of
 * the map itself.
 */
export function merge(base: Fields, over: Fields, field = ''): Fields {
  const merged: Fields = { ...base };
  for (const [key, value] of Object.entries(over)) {
    const below = base[key];
    const goesOn = field !== WHOLE_FIELDS && isPlainMap(below) && isPlainMap(value) && isSameKind(below, value);
    merged[key] = goesOn ? merge(below, value, key) : value;
  }
  return merged;
}

function isSameKind(below: Fields, value: Fields): boolean {
  return KIND_FIELDS.every((field) => value[field] === undefined || value[field] === below[field]);
}
