import type { JsonObject, JsonValue } from '../../model/json.ts';
import { isObject } from '../../shape/records/field-at.ts';

/** A place in a body that may hold the records. */
export interface RecordArray {
  /** As `records` of a profile says it; '' for the body itself. */
  path: string;
  count: number;
  /** True for the name that lists of records usually have, or that of the resource. */
  isNamed: boolean;
  /** True for a list that is likelier to be about the records than of them. */
  isAside: boolean;
}

/** Names that services give to the list of records. */
const USUAL: ReadonlySet<string> = new Set([
  '',
  'data',
  'items',
  'results',
  'records',
  'entries',
  'rows',
  'list',
  'docs',
  'content',
  'hits',
  'values',
]);
/** Names of the one field of a list's entries that holds the record. */
const WRAPPED = /^(?:node|doc|document|record|resource|item|entry|_source|value)$/;
const PLAIN_KEY = /^[\w$-]+$/;
const SAYS_ID = /^_?(?:id|uuid|uid|guid|key)$/i;
const MOST_LEVELS = 4;

/** Every place of several objects in a body, the likeliest first: that with the usual name or the resource's, then the longest. */
export function recordArrays(json: JsonValue, name: string): RecordArray[] {
  const found: RecordArray[] = [];
  visit(json, '', 0, (path, count) => found.push(placeAt(path, count, name)));
  return found.toSorted((a, b) => rankOf(b) - rankOf(a));
}

type Add = (path: string, count: number) => void;

/** Nothing within a record is looked at. */
function visit(value: JsonValue, path: string, level: number, add: Add): void {
  if (Array.isArray(value)) {
    if (value.every(isObject)) listAt(value, path, level, add);
    return;
  }
  if (!isObject(value) || level >= MOST_LEVELS) return;
  if (isMapOfRecords(value)) {
    add(path === '' ? '*' : `${path}.*`, Object.keys(value).length);
    return;
  }
  for (const [key, below] of Object.entries(value)) {
    if (PLAIN_KEY.test(key)) visit(below, path === '' ? key : `${path}.${key}`, level + 1, add);
  }
}

function listAt(list: readonly JsonObject[], path: string, level: number, add: Add): void {
  const [first] = list;
  const wrapper = wrapperOf(list);
  if (wrapper !== null) return add(`${path}[*].${wrapper}`, list.length);
  const inner = list.length === 1 && first !== undefined ? innerLists(first) : [];
  // One entry without an id that holds a list is no record, but what the list stands in.
  if (first !== undefined && inner.length > 0 && !Object.keys(first).some((key) => SAYS_ID.test(key))) {
    for (const [key, below] of inner) visit(below, `${path}[0].${key}`, level + 2, add);
    return;
  }
  add(path, list.length);
}

function innerLists(entry: JsonObject): [string, JsonValue][] {
  return Object.entries(entry).filter(
    ([key, value]) => PLAIN_KEY.test(key) && Array.isArray(value) && value.some(isObject),
  );
}

/** The field of all entries that holds the record: the only object in them, with more in it than beside it. */
function wrapperOf(list: readonly JsonObject[]): string | null {
  const [first] = list;
  if (first === undefined) return null;
  const objects = Object.keys(first).filter((key) => isObject(first[key]));
  const [key] = objects;
  if (key === undefined || objects.length > 1 || Object.keys(first).length > 4) return null;
  const inner = list.map((entry) => entry[key]);
  if (!inner.every(isObject)) return null;
  const hasIds = inner.every((value) => Object.keys(value).some((name) => SAYS_ID.test(name)));
  return WRAPPED.test(key) && hasIds ? key : null;
}

/** Several objects under keys of their own, alike in their fields. */
function isMapOfRecords(map: JsonObject): boolean {
  const values = Object.values(map);
  const [first] = values;
  if (values.length < 2 || !values.every(isObject) || !isObject(first)) return false;
  const fields = Object.keys(first);
  if (fields.length < 2) return false;
  return values.every((value) => {
    const shared = fields.filter((key) => Object.hasOwn(value, key)).length;
    return shared >= 2 && shared >= Math.min(fields.length, Object.keys(value).length) / 2;
  });
}

function placeAt(path: string, count: number, name: string): RecordArray {
  const bare = path.replaceAll(/\[[*\d]\]|\.?\*$/g, '');
  const last = bare.split('.').at(-1) ?? '';
  const isNamed = USUAL.has(bare) || last.toLowerCase() === name.toLowerCase();
  const isAside = /error|link|includ|meta|facet|filter|categor|breadcrumb/i.test(path) && !isNamed;
  return { path, count, isNamed, isAside };
}

function rankOf({ path, count, isNamed, isAside }: RecordArray): number {
  const depth = path === '' ? 0 : path.split('.').length;
  return Math.min(count, 500) + (isNamed ? 1_000 : 0) - depth * 10 - (isAside ? 2_000 : 0) - (count === 0 ? 300 : 0);
}
