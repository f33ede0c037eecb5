import type { JsonValue, SourceRecord } from '../../model/json.ts';
import { isExact } from '../json/exact-number.ts';
import { parseJson } from '../json/parse-json.ts';
import { type RecordCondition, isObject, meets, withField } from './field-at.ts';
import { unwrapped, type UnwrapRule } from './unwrap.ts';

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
