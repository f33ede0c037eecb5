// Finds the records of a page by the path in the profile, such as `data.items` (`selectRecords`). Each record keeps its exact
// bytes of the page, which are hashed and stored as the service sent them.
import { EACH_ELEMENT, isEach, type PathStep, stepsOf } from '../../model/body-path.ts';
import type { JsonValue, SourceRecord } from '../../model/json.ts';
import { COMMA, QUOTE, skipSpace, stringEnd, valueEnd } from '../json/parse-json.ts';
import { isObject, stepInto, withField } from './as-record.ts';

/** A value of a body, the position where it begins, and where it ends if that is known. */
interface ValueInBody {
  value: JsonValue;
  start: number;
  end?: number;
}

/** The entry of an array or map from which a path continues, and its key in the last map before it. */
interface Entry extends ValueInBody {
  key?: string | null;
}

/**
 * The records of a page, each with its own exact slice of the page. `json` is what `parseJson` made of `bytes` (UTF-8);
 * `path` is one of `model/body-path.ts`, '' if the body itself is the array. Null if it is missing or leads to no array.
 * After `[*]` or `*` it may lead to objects as well; an entry in which it leads to neither is a rejected record.
 * `keyField` is the field that gets the key of a record in a map.
 */
export function selectRecords(
  bytes: Buffer,
  json: JsonValue,
  path: string,
  keyField: string | null = null,
): SourceRecord[] | null {
  const records: SourceRecord[] = [];
  const search = { bytes, steps: stepsOf(path), path, keyField, records };
  const isFound = collect(search, { value: json, start: skipSpace(bytes, 0) }, 0, null);
  return isFound ? records : null;
}

/** Returns the only record of a response, with its slice of the body; null if the path leads to none or to several. */
export function selectRecord(
  bytes: Buffer,
  json: JsonValue,
  path: string,
  keyField: string | null = null,
): SourceRecord | null {
  const steps = stepsOf(path);
  if (steps.some(isEach)) {
    const records = selectRecords(bytes, json, path, keyField) ?? [];
    const [only] = records;
    return records.length === 1 && only?.rejection === undefined && isObject(only?.value) ? only : null;
  }
  const found = follow(bytes, { value: json, start: skipSpace(bytes, 0) }, steps);
  return found !== null && isObject(found.value) ? recordAt(bytes, found) : null;
}

/** How many records a path leads to, without looking at them. */
export function countRecords(json: JsonValue, path: string): number {
  return countFrom(json, stepsOf(path), 0, false);
}

function countFrom(value: JsonValue | undefined, steps: readonly PathStep[], at: number, isEntry: boolean): number {
  const step = steps[at];
  if (step === undefined) return Array.isArray(value) ? value.length : isEntry ? 1 : 0;
  if (!isEach(step)) return countFrom(stepInto(value, step), steps, at + 1, isEntry);
  const entries = Array.isArray(value) ? value : isObject(value) ? Object.values(value) : [];
  return entries.reduce<number>((count, entry) => count + countFrom(entry, steps, at + 1, true), 0);
}

/** The search for the records of a page. */
interface Search {
  /** The body in UTF-8. */
  bytes: Buffer;
  /** The steps of `path`. */
  steps: readonly PathStep[];
  path: string;
  keyField: string | null;
  /** The records found so far. */
  records: SourceRecord[];
}

/** Adds the records below `from`, by the steps from `at` on, within an `entry` or null; false if the path leads to none. */
function collect(search: Search, from: ValueInBody, at: number, entry: Entry | null): boolean {
  const { bytes, steps } = search;
  const next = steps.findIndex((step, index) => index >= at && isEach(step));
  const found = follow(bytes, from, steps.slice(at, next === -1 ? undefined : next));
  if (found === null) return addRejected(search, entry);
  if (next === -1) return addFound(search, found, entry);
  const entries = entriesOf(bytes, found, steps[next]);
  if (entries === null) return addRejected(search, entry);
  for (const each of entries) collect(search, each, next + 1, { ...each, key: each.key ?? entry?.key ?? null });
  return true;
}

/** An array holds the records; an object inside an entry is one record. */
function addFound(search: Search, found: ValueInBody, entry: Entry | null): boolean {
  const { bytes } = search;
  if (Array.isArray(found.value)) {
    for (const element of elementsOf(bytes, found.start, found.value)) addRecord(search, element, entry);
    return true;
  }
  // `rows[*]` leads to the entries themselves, which may be of any kind, as in an array.
  const isEntry = entry !== null && entry.start === found.start;
  if (entry === null || (!isEntry && !isObject(found.value))) return addRejected(search, entry);
  addRecord(search, found, entry);
  return true;
}

function addRecord({ bytes, keyField, records }: Search, found: ValueInBody, entry: Entry | null): void {
  const record = recordAt(bytes, found);
  const key = entry?.key ?? null;
  records.push(keyField === null || key === null ? record : withField(record, keyField, key));
}

/** An entry without a record is rejected with its own body; false without an entry. */
function addRejected({ bytes, path, records }: Search, entry: Entry | null): boolean {
  if (entry === null) return false;
  const rejection = { reason: 'record_missing', detail: `the entry has no record at ${path}` } as const;
  records.push({ ...recordAt(bytes, entry), value: null, rejection });
  return true;
}

function recordAt(bytes: Buffer, { value, start, end = valueEnd(bytes, start) }: ValueInBody): SourceRecord {
  return { value, bytes: bytes.subarray(start, end) };
}

function follow(bytes: Buffer, from: ValueInBody, steps: readonly PathStep[]): ValueInBody | null {
  let at = from;
  for (const step of steps) {
    const value = stepInto(at.value, step);
    if (value === undefined) return null;
    at = { value, start: startAfterStep(bytes, at, step) };
  }
  return at;
}

function startAfterStep(bytes: Buffer, { value, start }: ValueInBody, step: PathStep): number {
  if (typeof step === 'string') return membersOf(bytes, start).get(step) ?? -1;
  const elements = Array.isArray(value) ? elementsOf(bytes, start, value) : [];
  return (typeof step === 'number' ? elements.at(step)?.start : undefined) ?? -1;
}

/** Null for a value that is no container of this kind. Services write a map with numeric keys as an array. */
function entriesOf(bytes: Buffer, { value, start }: ValueInBody, step: PathStep | undefined): Entry[] | null {
  if (Array.isArray(value)) return elementsOf(bytes, start, value);
  if (step === EACH_ELEMENT || !isObject(value)) return null;
  return Array.from(membersOf(bytes, start), ([key, at]) => ({ key, value: value[key] ?? null, start: at }));
}

function elementsOf(bytes: Buffer, open: number, values: readonly JsonValue[]): ValueInBody[] {
  let at = skipSpace(bytes, open + 1);
  return values.map((value) => {
    const start = at;
    const end = valueEnd(bytes, start);
    // A value is followed by a comma, or by the bracket that ends the array.
    at = skipSpace(bytes, skipSpace(bytes, end) + 1);
    return { value, start, end };
  });
}

/** Returns where the values of the object at `open` begin, by key; the last one if a key is repeated. */
function membersOf(bytes: Buffer, open: number): Map<string, number> {
  const starts = new Map<string, number>();
  let at = skipSpace(bytes, open + 1);
  while (bytes[at] === QUOTE) {
    const keyEnd = stringEnd(bytes, at);
    const start = skipSpace(bytes, skipSpace(bytes, keyEnd) + 1);
    starts.set(String(JSON.parse(bytes.toString('utf8', at, keyEnd))), start);
    const end = skipSpace(bytes, valueEnd(bytes, start));
    if (bytes[end] !== COMMA) break;
    at = skipSpace(bytes, end + 1);
  }
  return starts;
}
