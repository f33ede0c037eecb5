type Fields = Record<string, unknown>;

/** A field by which a map says what kind it is: another kind has other fields, so it starts afresh. */
const KIND_FIELD = 'style';

/**
 * Lays a profile over the one that it extends: maps are merged, texts, numbers and lists replaced. A resource that is
 * set to null is left out, and a `page` of another style replaces the base's page as a whole.
 */
export function extendProfile(base: Fields, over: Fields): Fields {
  const merged = merge(base, over);
  const resources = merged['resources'];
  if (!isMap(resources)) return merged;
  return { ...merged, resources: Object.fromEntries(Object.entries(resources).filter(([, value]) => value !== null)) };
}

function merge(base: Fields, over: Fields): Fields {
  const merged: Fields = { ...base };
  for (const [key, value] of Object.entries(over)) {
    const below = base[key];
    merged[key] = isMap(below) && isMap(value) && isSameKind(below, value) ? merge(below, value) : value;
  }
  return merged;
}

function isSameKind(below: Fields, value: Fields): boolean {
  return value[KIND_FIELD] === undefined || value[KIND_FIELD] === below[KIND_FIELD];
}

function isMap(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
