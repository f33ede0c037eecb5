import type { JsonObject, JsonValue, SourceRecord } from '../../model/json.ts';
import { isExact, parseJson } from '../json/parse-json.ts';
import { isObject, meets, type RecordCondition, withField } from './field-at.ts';

/** How a resource's records are seen: the part of its profile that comes between an answer and a row. */
export interface RecordSight {
  /** The listing that it comes from, where the resource has several, and the field that says so. */
  partition?: { readonly field: string; readonly value: string } | null;
  unwrap?: readonly UnwrapRule[];
  filter?: readonly RecordCondition[];
  /** Hides fields; null if none are hidden. */
  mask?: ((record: SourceRecord) => SourceRecord) | null;
}

/**
 * A record of an answer as ids, times and tables see it. Its bytes stay what the service sent, unless fields are hidden:
 * then they are the rest, and `asSent` has what the service sent.
 */
export function asRecord(sent: SourceRecord, sight: RecordSight): SourceRecord {
  const seen = seenAs(sent, sight);
  return sight.mask == null ? seen : sight.mask(seen);
}

function seenAs(sent: SourceRecord, sight: RecordSight): SourceRecord {
  const { unwrap = [], filter = [], partition = null } = sight;
  if (sent.aside !== undefined || (unwrap.length === 0 && filter.length === 0 && partition === null)) return sent;
  const record = partition === null ? sent : withField(sent, partition.field, partition.value);
  const value = unwrapped(record.value, unwrap);
  if (partition !== null && !isOf(partition, value)) return { ...record, value: null, aside: strange(partition.field) };
  return meets(value, filter) ? { ...record, value } : { ...record, value, isLeftOut: true };
}

function isOf({ field, value }: NonNullable<RecordSight['partition']>, record: JsonValue): boolean {
  const said = isObject(record) && Object.hasOwn(record, field) ? record[field] : null;
  if (said === null || said === undefined) return false;
  return isExact(said) ? said.rawJSON === value : typeof said !== 'object' && String(said) === value;
}

function strange(field: string): NonNullable<SourceRecord['aside']> {
  return { reason: 'partition_other', detail: `${field} is not that of the listing in which the record is` };
}

/** A stored body as ids, times and tables see it: one with hidden fields was stored as they see it. */
export function storedValue(body: string, { unwrap = [], mask = null }: RecordSight): JsonValue {
  return mask === null ? unwrapped(parseJson(body), unwrap) : parseJson(body);
}

/** The records that are to be rows: those that the profile's filter does not leave out. */
export function takenIn(records: readonly SourceRecord[]): readonly SourceRecord[] {
  return records.some(({ isLeftOut }) => isLeftOut === true)
    ? records.filter(({ isLeftOut }) => isLeftOut !== true)
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

/** Deeper levels stay as they are: such a record is rejected (`record-limits.ts`). */
const MOST_LEVELS = 100;

/**
 * The record with each wrapper in it replaced by its value, from the outside to the inside: the first rule that fits
 * an object counts, and what it held is looked at again. The record itself is no wrapper. Returns the same object if
 * it holds none.
 */
export function unwrapped(record: JsonValue, rules: readonly UnwrapRule[]): JsonValue {
  return rules.length === 0 ? record : withMembers(record, rules, 1);
}

function unwrapValue(value: JsonValue, rules: readonly UnwrapRule[], level: number): JsonValue {
  if (typeof value !== 'object' || value === null || level > MOST_LEVELS) return value;
  const rule = isObject(value) ? rules.find((each) => fits(each, value)) : undefined;
  if (rule === undefined || !isObject(value)) return withMembers(value, rules, level + 1);
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

function withMembers(value: JsonValue, rules: readonly UnwrapRule[], level: number): JsonValue {
  if (Array.isArray(value)) {
    const elements = value.map((element) => unwrapValue(element, rules, level));
    return elements.some((element, index) => element !== value[index]) ? elements : value;
  }
  if (!isObject(value)) return value;
  const before = Object.entries(value);
  const after = before.map(([key, member]) => [key, unwrapValue(member, rules, level)] as const);
  return after.some(([key, member]) => member !== value[key]) ? Object.fromEntries(after) : value;
}
