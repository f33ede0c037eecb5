import { judgeRecord } from '../checks/item.ts';
import type { JsonObject, JsonValue } from '../model/json.ts';
import { isExact } from '../rows/json/parse-json.ts';
import { fieldAt, isObject, unwrapped, type UnwrapRule } from '../rows/records/as-record.ts';
import { differenceText } from '../rows/records/record-difference.ts';
import { selectRecord, selectRecords } from '../rows/records/select-records.ts';
import { type Answer, isUsable, said } from './asker.ts';
import { keyOf, type Subject } from './profile.ts';

/** A place in a body that may hold the records. */
interface RecordArray {
  /** As `records` of a profile says it; '' for the body itself. */
  path: string;
  count: number;
  /** True for the name that lists of records usually have, or that of the resource. */
  isNamed: boolean;
  /** True for a list that is likelier to be about the records than of them. */
  isAside: boolean;
}

/** Names that services give to the list of records. */
const RECORD_LISTS: ReadonlySet<string> = new Set(
  ' data items results records entries rows list docs content hits values'.split(' '),
);
/** Names of the one field of a list's entries that holds the record. */
const WRAPPED = /^(?:node|doc|document|record|resource|item|entry|_source|value)$/;
const PLAIN_KEY = /^[\w$-]+$/;
const SAYS_ID = /^_?(?:id|uuid|uid|guid|key)$/i;
const MOST_LEVELS = 4;

/** Every place of several objects in a body, the likeliest first: that with the usual name or the resource's, then the longest. */
export function recordArrays(json: JsonValue, name: string): RecordArray[] {
  const found: RecordArray[] = [];
  visit(json, '', 0, (path, count) => found.push(placeAt(path, count, name)));
  return found.toSorted((a, b) => rankPlace(b) - rankPlace(a));
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
  if (list.length === 1 && first !== undefined && !Object.keys(first).some((key) => SAYS_ID.test(key))) {
    // A single entry without an id that holds lists is not a record, but contains them.
    const inner = Object.entries(first).filter(
      ([key, value]) => PLAIN_KEY.test(key) && Array.isArray(value) && value.some(isObject),
    );
    for (const [key, below] of inner) visit(below, `${path}[0].${key}`, level + 2, add);
    if (inner.length > 0) return;
  }
  add(path, list.length);
}

/** The field of all entries that holds the record: the only object in them. */
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
  const isNamed = RECORD_LISTS.has(bare) || last.toLowerCase() === name.toLowerCase();
  const isAside = /error|link|includ|meta|facet|filter|categor|breadcrumb/i.test(path) && !isNamed;
  return { path, count, isNamed, isAside };
}

function rankPlace({ path, count, isNamed, isAside }: RecordArray): number {
  const depth = path === '' ? 0 : path.split('.').length;
  return Math.min(count, 500) + (isNamed ? 1_000 : 0) - depth * 10 - (isAside ? 2_000 : 0) - (count === 0 ? 300 : 0);
}

/** The records at a path of an answer; null if it holds none of them, or cannot be read. */
export function recordsIn(answer: Answer, path: string, rules: readonly UnwrapRule[] = []): JsonObject[] | null {
  if (!isUsable(answer) || answer.json === undefined) return null;
  const selected = selectRecords(answer.bytes, answer.json, path);
  if (selected === null) return null;
  const values = selected.map(({ value }) => unwrapped(value, rules));
  return values.every(isObject) ? values : null;
}

/** Objects of a body, itself included, with their paths: a single record may be at each. */
function objectsIn(json: JsonValue): { path: string; value: JsonObject }[] {
  const found: { path: string; value: JsonObject }[] = [];
  const visit = (value: JsonValue, path: string, level: number): void => {
    if (isObject(value)) {
      found.push({ path, value });
      if (level >= 2) return;
      for (const [key, below] of Object.entries(value)) {
        if (!key.includes('.')) visit(below, path === '' ? key : `${path}.${key}`, level + 1);
      }
    } else if (Array.isArray(value) && value.length === 1 && value[0] !== undefined) {
      visit(value[0], `${path}[0]`, level + 1);
    }
  };
  visit(json, '', 0);
  return found;
}

/** Paths of the fields of records, those of objects in them included: `id`, `sys.id`. */
export function fieldPaths(records: readonly JsonObject[], levels = 2): string[] {
  const paths = new Set<string>();
  const visit = (value: JsonObject, above: string, level: number): void => {
    for (const [key, below] of Object.entries(value)) {
      if (key.includes('.')) continue;
      const path = above === '' ? key : `${above}.${key}`;
      paths.add(path);
      if (isObject(below) && level < levels) visit(below, path, level + 1);
    }
  };
  for (const record of records.slice(0, 100)) visit(record, '', 1);
  return [...paths];
}

/** The values of a field, in the order of the records; undefined where it is missing. */
export function valuesAt(records: readonly JsonObject[], path: string): (JsonValue | undefined)[] {
  return records.map((record) => fieldAt(record, path));
}

const SAYS_KIND = /^(?:__type|\$type|_type|@type)$/;
/** How deep wrapped values are looked for. */
const WRAPPER_LEVELS = 3;

/** Rules for objects that only wrap one plain value: `{ __type: Date, iso: … }`, `{ $oid: … }`. */
export function wrapperRules(records: readonly JsonObject[]): UnwrapRule[] {
  const rules = new Map<string, UnwrapRule>();
  const visit = (value: JsonValue, level: number): void => {
    if (!isObject(value) || level > WRAPPER_LEVELS) return;
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
  const isPlain = (key: string): boolean => ['string', 'number'].includes(typeof object[key]);
  if (keys.length === 1) return only.startsWith('$') && isPlain(only) ? { only } : null;
  const field = keys.find((key) => SAYS_KIND.test(key));
  const value = keys.find((key) => key !== field);
  if (keys.length !== 2 || field === undefined || value === undefined || !isPlain(value)) return null;
  const equals = object[field];
  return typeof equals === 'string' ? { field, equals, value } : null;
}

/** Names of fields that identify a record, the surest first; other names that end so come after them. */
const ID_NAMES = 'id _id uuid uid guid documentid sys.id objectid key identifier handle slug'.split(' ');
const ENDS_IN_ID = /(?:^|[._])(?:uu|gu|u)?id$|[a-z](?:Id|ID|Uid|UUID)$|_key$/;

/** Fields that every record has and no two share, the likeliest first; no links to other records, no texts or times. */
export function idCandidates(records: readonly JsonObject[], name: string): string[] {
  if (records.length === 0) return [];
  return fieldPaths(records)
    .filter((path) => isUnique(valuesAt(records, path)) && (rankId(path, name) > 0 || records.length > 5))
    .filter((path) => rankId(path, name) > 0)
    .toSorted((a, b) => rankId(b, name) - rankId(a, name));
}

function isUnique(values: readonly (JsonValue | undefined)[]): boolean {
  const keys = values.map((value) => {
    if (typeof value === 'string') return value === '' || value.length > 300 ? null : value;
    return Number.isInteger(value) || isExact(value) ? JSON.stringify(value) : null;
  });
  return keys.every((key) => key !== null) && new Set(keys).size === keys.length;
}

function rankId(path: string, name: string): number {
  const at = ID_NAMES.indexOf(path.toLowerCase());
  if (at !== -1) return 100 - at;
  const singular = name.replace(/ies$/, 'y').replace(/s$/, '');
  const last = path.split('.').at(-1) ?? '';
  if (new RegExp(`^${singular}_?id$`, 'i').test(last)) return 85;
  return ENDS_IN_ID.test(path) ? (path.includes('.') ? 10 : 40) : 0;
}

/** The field that identifies a record, of the first page; it may be replaced when records are fetched individually. */
export function probeId(subject: Subject): string[] {
  const { findings, records } = subject;
  const found = idCandidates(records, subject.name);
  const before = subject.conventions.item?.id;
  const candidates =
    before !== undefined && found.includes(before) ? [before, ...found.filter((id) => id !== before)] : found;
  const [first] = candidates;
  subject.id = first ?? '';
  if (first === undefined) {
    const why = records.length === 0 ? 'the listing is empty' : 'no field is there in every record and unique';
    findings.guessed(['id'], 'id', why);
  } else if (records.length > 1) {
    findings.proved(['id'], first, `in all ${records.length} records, no two alike`);
  } else findings.guessed(['id'], first, 'there is only one record');
  return candidates;
}

/** Candidates for the id that are tried alone. */
const MOST_IDS = 3;

interface FoundItem {
  id: string;
  suffix: string;
  /** The path of the record in the response. */
  record: string;
  alone: JsonObject;
  answer: Answer;
}

/** Finds how one record is fetched individually, by which id, and what is answered for one that is not there. */
export async function probeItem(subject: Subject, ids: readonly string[]): Promise<void> {
  const { findings, records } = subject;
  const [sample] = records;
  if (sample === undefined || ids.length === 0)
    return findings.guessed(['item'], null, 'there is no record to ask for');
  const found = await findItem(subject, ids.slice(0, MOST_IDS));
  if (found === null) {
    const why = `no single record at ${subject.path}/{id}, by ${ids.slice(0, MOST_IDS).join(', ')}`;
    return findings.proved(['item'], null, why);
  }
  if (found.id !== subject.id) {
    findings.proved(['id'], found.id, `unique, and a record is read alone by it; not by ${subject.id}`);
    subject.id = found.id;
  }
  subject.conventions.item = { suffix: found.suffix, id: found.id, record: found.record };
  const judged = judgeRecord(sample, found.alone);
  if (judged.is === 'other') {
    const why = `${said(found.answer)}, another record than the listed one: ${differenceText(judged.differences)}`;
    return findings.proved(['item'], null, why);
  }
  const further = judged.is === 'more' ? `, and further fields: ${differenceText(judged.differences)}` : '';
  const evidence = `${said(found.answer)}, the listed record with the same fields and values${further}`;
  findings.proved(['item'], baseOf(subject) + found.suffix, evidence);
  if (found.record !== '') findings.proved(['item_record'], found.record, 'the record stands there in that answer');
  await probeMissing(subject, found);
}

async function findItem(subject: Subject, ids: readonly string[]): Promise<FoundItem | null> {
  const [sample = {}] = subject.records;
  const known = subject.conventions.item;
  const base = baseOf(subject);
  const usual = subject.path.endsWith('/') ? ['/{id}/', '/{id}'] : ['/{id}'];
  const suffixes = known === null ? usual : [known.suffix];
  for (const id of ids) {
    for (const suffix of suffixes) {
      const value = fieldAt(sample, id) ?? '';
      const key = typeof value === 'string' ? value : JSON.stringify(value);
      const answer = await requestRecord(subject, base + suffix, key);
      const record = isUsable(answer) ? placeOf(answer, sample, id, subject.unwrap) : null;
      if (record !== null) return { id, suffix, ...record, answer };
    }
  }
  return null;
}

function baseOf({ path }: Subject): string {
  return path.replace(/\/$/, '');
}

function requestRecord({ query, asker }: Subject, path: string, id: string): Promise<Answer> {
  return asker.ask({ path: path.replace('{id}', encodeURIComponent(id)), query });
}

/** The object of an answer that has the sample's id and most of its fields. */
function placeOf(
  answer: Answer,
  sample: JsonObject,
  id: string,
  rules: readonly UnwrapRule[],
): { record: string; alone: JsonObject } | null {
  const json = answer.json ?? null;
  const wanted = Object.keys(sample);
  for (const { path, value: sent } of objectsIn(json)) {
    const value = unwrapped(sent, rules);
    if (!isObject(value)) continue;
    const shared = wanted.filter((key) => Object.hasOwn(value, key)).length;
    if (keyOf(value, id) !== keyOf(sample, id) || shared < wanted.length / 2) continue;
    // Only a place that the program can read.
    const selected = selectRecord(answer.bytes, json, path);
    if (selected !== null) return { record: path, alone: value };
  }
  return null;
}

/** An id of the same form that no record has. */
function missingId(value: JsonValue | undefined): string {
  if (typeof value !== 'string') return String(Number(value ?? 1) + 987_654_321);
  const tail = value.slice(-6);
  const changed = tail
    .replaceAll(/\d/g, (digit) => String((Number(digit) + 7) % 10))
    .replaceAll(/[a-f]/g, (letter) => String.fromCharCode(97 + ((letter.charCodeAt(0) - 97 + 3) % 6)));
  return changed === tail ? `${value}zz` : value.slice(0, -6) + changed;
}

const GONE: ReadonlySet<number> = new Set([404, 410]);

async function probeMissing(subject: Subject, { id, suffix }: FoundItem): Promise<void> {
  const { findings } = subject;
  let status = subject.conventions.gone;
  let evidence = 'as in the resource before';
  if (status === null) {
    const [sample = {}] = subject.records;
    const answer = await requestRecord(subject, baseOf(subject) + suffix, missingId(fieldAt(sample, id)));
    status = answer.status;
    evidence = `an id that no record has: ${said(answer)}`;
    if (status < 400 || status >= 500) {
      return findings.guessed(['item'], null, `${evidence}, which does not say that it is gone`);
    }
    subject.conventions.gone = status;
  }
  if (!GONE.has(status)) findings.proved(['gone', 'status'], [status], evidence);
}
