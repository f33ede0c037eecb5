// Finds the records in a response body. Example: in `{"meta": {…}, "data": {"posts": [{"id": 1}, …]}}` they are at
// `data.posts`.
import type { JsonObject, JsonValue } from '../model/json.ts';
import { isObject, unwrapRecord, type UnwrapRule } from '../rows/records/as-record.ts';
import { selectRecords } from '../rows/records/select-records.ts';
import { isUsable, type ProbeResponse } from './probe-client.ts';
import { ASIDE, LIST_NAMES, WRAPPER } from './vocabulary.ts';

const ID = /^_?(?:id|uuid|uid|guid|key)$/i;
/** A key that is no sentence or address. */
const PLAIN_KEY = /^[\w$@:.-]+$/;
const MAX_LEVELS = 4;

/** A path in a body that may hold the records. */
interface RecordList {
  /** As `records` of a profile says it; '' for the body itself. */
  path: string;
  count: number;
}

/** Every path of several objects in a body, the likeliest first: with a usual name or the resource's, then the longest. */
export function recordLists(json: JsonValue, name: string): RecordList[] {
  const rank = ({ path, count }: RecordList): number => {
    const bare = path.replaceAll(/\[[*\d]\].*|\.?\*$/g, '');
    const isNamed = LIST_NAMES.has(bare) || bare.split('.').at(-1)?.toLowerCase() === name.toLowerCase();
    const depth = path === '' ? 0 : path.split('.').length;
    const penalty = (ASIDE.test(path) && !isNamed ? 2_000 : 0) + (count === 0 ? 300 : 0) + depth * 10;
    return Math.min(count, 500) + (isNamed ? 1_000 : 0) - penalty;
  };
  return [...listsIn(json, '', 0)].toSorted((a, b) => rank(b) - rank(a));
}

/** Does not look into records. */
function* listsIn(value: JsonValue, path: string, level: number): Generator<RecordList> {
  if (Array.isArray(value)) {
    if (value.every(isObject)) yield* listsInArray(value, path, level);
  } else if (isObject(value) && level < MAX_LEVELS) {
    const isMap = isMapOfRecords(value);
    if (isMap) yield { path: path === '' ? '*' : `${path}.*`, count: Object.keys(value).length };
    for (const [key, below] of isMap ? [] : Object.entries(value))
      if (PLAIN_KEY.test(key)) yield* listsIn(below, joinPath(path, key), level + 1);
  }
}

function* listsInArray(list: readonly JsonObject[], path: string, level: number): Generator<RecordList> {
  const [first = {}] = list;
  const wrapper = wrapperOf(list);
  // A single entry without an id that holds lists is not a record, but contains them.
  const isContainer = wrapper === null && list.length === 1 && !holdsRecord(first);
  const inner = Object.entries(isContainer ? first : {}).filter(
    ([key, value]) => PLAIN_KEY.test(key) && Array.isArray(value) && value.some(isObject),
  );
  for (const [key, below] of inner) yield* listsIn(below, `${path}[0].${key}`, level + 2);
  if (inner.length === 0) yield { path: wrapper === null ? path : `${path}[*].${wrapper}`, count: list.length };
}

function holdsRecord(value: JsonValue | undefined): boolean {
  return isObject(value) && Object.keys(value).some((name) => ID.test(name));
}

/** The field of all entries that holds the record: the only object in them that has an id. */
function wrapperOf(list: readonly JsonObject[]): string | null {
  const [first = {}] = list;
  const [key, ...others] = Object.keys(first).filter((name) => holdsRecord(first[name]));
  if (key === undefined || others.length > 0 || Object.keys(first).length > 5 || !WRAPPER.test(key)) return null;
  return list.every((entry) => holdsRecord(entry[key])) ? key : null;
}

/** Several objects under keys of their own, alike in their fields. */
function isMapOfRecords(map: JsonObject): boolean {
  const values = Object.values(map);
  const [first] = values;
  if (values.length < 2 || !values.every(isObject) || !isObject(first)) return false;
  const fields = Object.keys(first);
  return values.every((value) => {
    const shared = fields.filter((key) => Object.hasOwn(value, key)).length;
    return shared >= 2 && shared >= Math.min(fields.length, Object.keys(value).length) / 2;
  });
}

/** The records at a path of a response; null if it holds none of them, or cannot be read. */
export function recordsIn(response: ProbeResponse, path: string, rules: readonly UnwrapRule[] = []) {
  const { bytes, json = null } = response;
  const selected = isUsable(response) ? selectRecords(bytes, json, path) : null;
  const values = selected?.map(({ value }) => unwrapRecord(value, rules)) ?? [null];
  return values.every(isObject) ? values : null;
}

export function joinPath(parent: string, key: string): string {
  const step = /[."'*[\]]/.test(key) ? JSON.stringify(key) : key;
  return parent === '' ? step : `${parent}.${step}`;
}

/** A value of a response or record, and its path as a profile names it: `meta.total`, `header:X-Total`. */
export interface ValueAt<T> {
  path: string;
  value: T;
}

/** The values of an object and of objects in it, to a depth; not those within lists. */
export function* valuesIn(value: JsonValue, levels: number, parent = ''): Generator<ValueAt<JsonValue>> {
  if (!isObject(value)) return;
  for (const [key, below] of Object.entries(value)) {
    const path = joinPath(parent, key);
    yield { path, value: below };
    if (levels > 1) yield* valuesIn(below, levels - 1, path);
  }
}

const UNWRAP_LEVELS = 3;

/** Rules for objects that only wrap one plain value: `{ __type: Date, iso: … }`, `{ $oid: … }`. */
export function unwrapRules(records: readonly JsonObject[]): UnwrapRule[] {
  const values = records.slice(0, 50).flatMap((record) => Array.from(valuesIn(record, UNWRAP_LEVELS)));
  const rules = values.flatMap(({ value }) => (isObject(value) ? (unwrapRule(value) ?? []) : []));
  return [...new Map(rules.map((rule) => [JSON.stringify(rule), rule])).values()];
}

function unwrapRule(object: JsonObject): UnwrapRule | null {
  const [first = '', second, ...others] = Object.keys(object).toSorted((a, b) => Number(isType(b)) - Number(isType(a)));
  const value = second ?? first;
  if (others.length > 0 || !['string', 'number'].includes(typeof object[value])) return null;
  if (second === undefined) return first.startsWith('$') ? { only: first } : null;
  const equals = object[first];
  return isType(first) && typeof equals === 'string' ? { field: first, equals, value } : null;
}

function isType(key: string): boolean {
  return /^(?:__type|\$type|_type|@type)$/.test(key);
}
