// Prepares received records as the profile describes (`prepareRecord`): adds the partition field, replaces wrapped values
// (`{"iso": "2026-01-01"}` by `2026-01-01`), applies the filter, and hides fields. Rejects records that exceed the limits
// (`limitRejection`). Also has the functions that read a value of a record.
import { type PathStep, stepsOf } from '../../model/body-path.ts';
import type { JsonObject, JsonValue, SourceRecord } from '../../model/json.ts';
import { CLOSE_BRACE, isExact, parseJson, skipSpace } from '../json/parse-json.ts';

/** True for a JSON object; false for arrays, null and exact numbers. */
export function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isExact(value);
}

/**
 * The value at a path (`model/body-path.ts`; '' is the value itself); undefined if any step is missing or leads to many
 * values.
 */
export function fieldAt(value: JsonValue, path: string): JsonValue | undefined {
  let at: JsonValue | undefined = value;
  for (const step of stepsOf(path)) {
    at = stepInto(at, step);
    if (at === undefined) return undefined;
  }
  return at;
}

/** The value one step further; undefined without one. */
export function stepInto(value: JsonValue | undefined, step: PathStep): JsonValue | undefined {
  if (typeof step === 'string') return isObject(value) && Object.hasOwn(value, step) ? value[step] : undefined;
  return typeof step === 'number' && Array.isArray(value) ? value.at(step) : undefined;
}

/**
 * True if the value needs a column or a row: it is or contains a text, a number, a boolean or a non-empty array. A
 * non-empty array always has content, even `[null]`, so that its child rows do not depend on which record came first.
 * Recurses: only for records within the depth limit.
 */
export function hasContent(value: JsonValue | undefined): boolean {
  if (value === null || value === undefined) return false;
  if (Array.isArray(value)) return value.length > 0;
  return isObject(value) ? Object.values(value).some(hasContent) : true;
}

/**
 * Adds a field that the response has outside of the record: its key in a map, or its listing. The field comes first in
 * the record and in its bytes. A record that has the field, or is no object, stays as it is.
 */
export function withField(record: SourceRecord, field: string, text: string): SourceRecord {
  const { value, bytes } = record;
  if (!isObject(value) || Object.hasOwn(value, field)) return record;
  const rest = bytes.subarray(1);
  const isEmpty = bytes[skipSpace(bytes, 1)] === CLOSE_BRACE;
  const member = `{${JSON.stringify(field)}:${JSON.stringify(text)}${isEmpty ? '' : ','}`;
  return { ...record, value: { [field]: text, ...value }, bytes: Buffer.concat([Buffer.from(member), rest]) };
}

/** A value that a field is compared with. */
type Scalar = string | number | boolean | null;

/**
 * A condition on a field; a missing field is null. If the field is an array, one matching element is enough.
 * `exists: true` means not null.
 */
interface RecordCondition {
  field: string;
  in?: readonly Scalar[] | undefined;
  not_in?: readonly Scalar[] | undefined;
  exists?: boolean | undefined;
}

/** True if the record meets all conditions. */
export function meets(record: JsonValue, conditions: readonly RecordCondition[]): boolean {
  return conditions.every((condition) => meetsOne(record, condition));
}

function meetsOne(record: JsonValue, { field, in: wanted, not_in: unwanted, exists }: RecordCondition): boolean {
  const value = fieldAt(record, field) ?? null;
  if (exists !== undefined && (value !== null) !== exists) return false;
  if (wanted !== undefined && !isAmong(value, wanted)) return false;
  return unwanted === undefined || !isAmong(value, unwanted);
}

function isAmong(value: JsonValue, scalars: readonly Scalar[]): boolean {
  const values = Array.isArray(value) ? value : [value];
  // Compares exact numbers by their digits, also with a text: a number in YAML is only a double.
  return values.some((each) =>
    scalars.some((scalar) => (isExact(each) ? each.rawJSON === String(scalar) : each === scalar)),
  );
}

/** The part of a resource's profile by which a received record is prepared before it becomes a row. */
export interface RecordRules {
  /** For a resource with several listings: the field that names the listing, and its value in this one. */
  partition?: { readonly field: string; readonly value: string } | null;
  unwrap?: readonly UnwrapRule[];
  filter?: readonly RecordCondition[];
  /** Hides fields; null if none are hidden. */
  mask?: ((record: SourceRecord) => SourceRecord) | null;
}

/**
 * Prepares a received record for keys, times and tables. Its bytes stay as the service sent them. If fields are hidden,
 * the bytes are encoded again without them, and `asSent` has the original ones.
 */
export function prepareRecord(sent: SourceRecord, rules: RecordRules): SourceRecord {
  const seen = applyRules(sent, rules);
  return rules.mask == null ? seen : rules.mask(seen);
}

function applyRules(sent: SourceRecord, rules: RecordRules): SourceRecord {
  const { unwrap = [], filter = [], partition = null } = rules;
  if (sent.rejection !== undefined || (unwrap.length === 0 && filter.length === 0 && partition === null)) return sent;
  const record = partition === null ? sent : withField(sent, partition.field, partition.value);
  const value = unwrapRecord(record.value, unwrap);
  if (partition !== null && !isOfPartition(partition, value)) {
    const detail = `${partition.field} is not that of the listing in which the record is`;
    return { ...record, value: null, rejection: { reason: 'partition_other', detail } };
  }
  return meets(value, filter) ? { ...record, value } : { ...record, value, isFilteredOut: true };
}

function isOfPartition({ field, value }: NonNullable<RecordRules['partition']>, record: JsonValue): boolean {
  const actual = isObject(record) && Object.hasOwn(record, field) ? record[field] : null;
  if (actual === null || actual === undefined) return false;
  return isExact(actual) ? actual.rawJSON === value : typeof actual !== 'object' && String(actual) === value;
}

/** Parses a stored body and unwraps it. With a mask the stored body is already unwrapped and masked. */
export function storedValue(body: string, { unwrap = [], mask = null }: RecordRules): JsonValue {
  return mask === null ? unwrapRecord(parseJson(body), unwrap) : parseJson(body);
}

/** Returns the records that the profile's filter does not exclude. */
export function recordsPassingFilter(records: readonly SourceRecord[]): readonly SourceRecord[] {
  return records.some(({ isFilteredOut }) => isFilteredOut === true)
    ? records.filter(({ isFilteredOut }) => isFilteredOut !== true)
    : records;
}

/** Which objects are wrappers, and the member that holds their value. */
export type UnwrapRule =
  /** An object with this member and no other. */
  | { only: string }
  /** An object whose `field` is `equals`. */
  | { field: string; equals: string | number | boolean; value: string }
  /** An object with no members but these, of which some may be missing. */
  | { keys: readonly string[]; value: string };

/**
 * Limits the recursion, because unwrapping runs before `limitRejection`. Deeper levels keep their wrappers. Unlike
 * `MAX_DEPTH`, it also counts the levels of the wrappers that are removed.
 */
const MAX_UNWRAP_LEVELS = 100;

/**
 * Replaces each wrapper in the record by its value, outer ones first: the first rule that fits counts, and the value may
 * be a wrapper again. The record itself is no wrapper. Returns the same object if it contains none.
 */
export function unwrapRecord(record: JsonValue, rules: readonly UnwrapRule[]): JsonValue {
  return rules.length === 0 ? record : unwrapMembers(record, rules, 1);
}

function unwrapValue(value: JsonValue, rules: readonly UnwrapRule[], level: number): JsonValue {
  if (typeof value !== 'object' || value === null || level > MAX_UNWRAP_LEVELS) return value;
  const rule = isObject(value) ? rules.find((each) => fits(each, value)) : undefined;
  if (rule === undefined || !isObject(value)) return unwrapMembers(value, rules, level + 1);
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

function unwrapMembers(value: JsonValue, rules: readonly UnwrapRule[], level: number): JsonValue {
  if (Array.isArray(value)) {
    const elements = value.map((element) => unwrapValue(element, rules, level));
    return elements.some((element, index) => element !== value[index]) ? elements : value;
  }
  if (!isObject(value)) return value;
  const before = Object.entries(value);
  const after = before.map(([key, member]) => [key, unwrapValue(member, rules, level)] as const);
  return after.some(([key, member]) => member !== value[key]) ? Object.fromEntries(after) : value;
}

// Rejects records that are too large to process.

/** Levels of objects and arrays in one record; `JSON.stringify` and Postgres's jsonb fail from about 10,000. */
const MAX_DEPTH = 100;
/** Fields and elements of one record, on all levels together. */
const MAX_VALUES = 100_000;
/** Characters of one field name; it is stored with each column and never meant to be longer. */
const MAX_KEY_LENGTH = 1024;

/** Bytes of one record's source; Postgres's jsonb and the one parameter of a page end at 256 MiB. */
const MAX_BYTES = 192 << 20;

/** A record without fields. */
export const NOT_AN_OBJECT: Rejection = { reason: 'not_an_object', detail: 'the record is not a JSON object' };

/**
 * Rejects a record (by its value and the length of its source) that is too deep, too wide, too large or not an object;
 * null for all others, which are safe to recurse into.
 */
export function limitRejection(value: JsonValue, bytes: number): Rejection | null {
  if (!isObject(value)) return NOT_AN_OBJECT;
  if (bytes > MAX_BYTES) return { reason: 'too_large', detail: `a record of more than ${MAX_BYTES} bytes` };
  const count = countValues(value, 1, 0);
  if (count <= MAX_VALUES) return null;
  if (count === DEPTH_EXCEEDED) return { reason: 'too_deep', detail: `nested deeper than ${MAX_DEPTH} levels` };
  return count === KEY_LENGTH_EXCEEDED
    ? { reason: 'key_too_long', detail: `a field name of more than ${MAX_KEY_LENGTH} characters` }
    : { reason: 'too_wide', detail: `more than ${MAX_VALUES} fields and elements in one record` };
}

/** Special results of counting, larger than every count. */
const DEPTH_EXCEEDED = 1e9;
const KEY_LENGTH_EXCEEDED = 2e9;

/** Adds the fields and elements in the value to the count, and stops at the first limit that is exceeded. Runs for each value. */
function countValues(value: JsonValue, depth: number, countBefore: number): number {
  if (typeof value !== 'object' || value === null || isExact(value)) return countBefore;
  if (depth > MAX_DEPTH) return DEPTH_EXCEEDED;
  let count = countBefore;
  if (Array.isArray(value)) {
    for (const element of value) {
      count = countValues(element, depth + 1, count + 1);
      if (count > MAX_VALUES) return count;
    }
    return count;
  }
  for (const key in value) {
    if (key.length > MAX_KEY_LENGTH) return KEY_LENGTH_EXCEEDED;
    count = countValues(value[key] ?? null, depth + 1, count + 1);
    if (count > MAX_VALUES) return count;
  }
  return count;
}

/** Why a record is rejected while the rest of its page is loaded; stored with its body in `_sync_rejects`. */
export type RejectReason =
  | 'id_missing'
  | 'id_null'
  | 'id_empty'
  | 'id_type'
  | 'id_too_long'
  | 'id_characters'
  | 'record_missing'
  | 'partition_other'
  | 'not_an_object'
  | 'too_deep'
  | 'too_wide'
  | 'too_large'
  | 'key_too_long'
  | 'contract';

export interface Rejection {
  reason: RejectReason;
  /** One sentence for the operator; names the field, never its value. */
  detail: string;
}
