import type { JsonValue } from '../../model/json.ts';
import { isObject } from './field-at.ts';
import { kindOf, type JsonKind } from './record-difference.ts';

/** The kinds of the fields of records on all levels, by dotted path; `[]` for the elements of a list. */
export type FieldKinds = Map<string, Set<JsonKind>>;

/** As in `recordDifferences`, deeper levels are ignored. */
const MOST_LEVELS = 40;

export function fieldKindsOf(value: JsonValue): FieldKinds {
  const outline: FieldKinds = new Map();
  addTo(outline, '', value, 0);
  return outline;
}

function addTo(outline: FieldKinds, path: string, value: JsonValue, level: number): void {
  const kinds = outline.get(path) ?? new Set();
  outline.set(path, kinds.add(kindOf(value)));
  if (level >= MOST_LEVELS) return;
  if (Array.isArray(value)) for (const each of value) addTo(outline, `${path}[]`, each, level + 1);
  else if (isObject(value)) {
    for (const [key, field] of Object.entries(value)) {
      addTo(outline, path === '' ? key : `${path}.${key}`, field, level + 1);
    }
  }
}

/** Adds further fields and kinds in place. */
export function addFieldKinds(outline: FieldKinds, by: FieldKinds): void {
  for (const [path, kinds] of by) outline.set(path, (outline.get(path) ?? new Set()).union(kinds));
}

/**
 * The first field that keeps a reading from standing in for the listed record, or null if there is none. `proved` are
 * the fields that were the same in the listing and in the record read alone. A reading may have only those, of the
 * kinds that they had there (or null). It may lack a field that the record had before (`stored`, null if unknown) only
 * if that field is proved, so that its absence means something. Pure.
 */
export function unprovedField(proved: FieldKinds, reading: FieldKinds, stored: FieldKinds | null): string | null {
  for (const [path, kinds] of reading) {
    const known = proved.get(path);
    if (known === undefined) return path;
    for (const kind of kinds) if (kind !== 'null' && !known.has(kind)) return path;
  }
  for (const path of stored?.keys() ?? []) if (!reading.has(path) && !proved.has(path)) return path;
  return null;
}
