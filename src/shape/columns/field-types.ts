import type { JsonValue } from '../../model/json.ts';
import { typeOf } from './type-lattice.ts';
import { isObject } from '../records/field-at.ts';

/** What a field holds; all numbers are one. */
type FieldType = 'number' | 'boolean' | 'date' | 'time' | 'text' | 'object' | 'list';

/** Types by path (`author.name`, `tags[]`); none for a field that is always null. */
export type FieldTypes = ReadonlyMap<string, ReadonlySet<FieldType>>;

const OF_COLUMN = {
  integer: 'number',
  double: 'number',
  numeric: 'number',
  boolean: 'boolean',
  date: 'date',
  timestamp: 'time',
  text: 'text',
  json: 'text',
} as const;

/** The fields of records and what they hold, on all levels. Recurses: only for records within the depth limit. */
export function fieldTypes(records: readonly JsonValue[]): FieldTypes {
  const found = new Map<string, Set<FieldType>>();
  for (const record of records) note(found, '', record);
  found.delete('');
  return found;
}

function note(found: Map<string, Set<FieldType>>, path: string, value: JsonValue): void {
  const types = found.get(path) ?? new Set();
  found.set(path, types);
  if (Array.isArray(value)) {
    types.add('list');
    for (const element of value) note(found, `${path}[]`, element);
  } else if (isObject(value)) {
    types.add('object');
    for (const [key, field] of Object.entries(value)) note(found, path === '' ? key : `${path}.${key}`, field);
  } else {
    const type = typeOf(value);
    if (type !== null) types.add(OF_COLUMN[type]);
  }
}

/** How the fields of two sets of records differ. */
export interface FieldChanges {
  /** There before and not any more; only the outermost of those that lie within each other. */
  gone: string[];
  /** Held something before, and are null everywhere now. */
  emptied: string[];
  added: string[];
  /** Such as `views: number, was text`. */
  retyped: string[];
}

export function fieldChanges(before: FieldTypes, after: FieldTypes): FieldChanges {
  const both = [...before].flatMap(([path, types]) => {
    const now = after.get(path);
    return now === undefined || types.size === 0 ? [] : [{ path, types, now }];
  });
  return {
    gone: outermost(before, after),
    emptied: both.filter(({ now }) => now.size === 0).map(({ path }) => path),
    added: outermost(after, before),
    retyped: both
      .filter(({ types, now }) => !now.isSubsetOf(types))
      .map(({ path, types, now }) => `${path}: ${[...now].join(' or ')}, was ${[...types].join(' or ')}`),
  };
}

/** Paths of one that the other has not, without those within another such path. */
function outermost(one: FieldTypes, other: FieldTypes): string[] {
  const missing = [...one.keys()].filter((path) => !other.has(path));
  return missing.filter(
    (path) => !missing.some((outer) => path.startsWith(`${outer}.`) || path.startsWith(`${outer}[`)),
  );
}
