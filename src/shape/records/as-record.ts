import type { JsonValue, SourceRecord } from '../../model/json.ts';
import { parseJson } from '../json/parse-json.ts';
import { meets, type FieldCondition } from './field-condition.ts';
import { unwrapped, type UnwrapRule } from './unwrap.ts';

/** How a resource's records are seen: the part of its profile that comes between an answer and a row. */
export interface RecordSight {
  unwrap?: readonly UnwrapRule[];
  filter?: readonly FieldCondition[];
}

/** A record of an answer as ids, times and tables see it. Its bytes stay what the service sent. */
export function asRecord(record: SourceRecord, sight: RecordSight): SourceRecord {
  const { unwrap = [], filter = [] } = sight;
  if (record.aside !== undefined || (unwrap.length === 0 && filter.length === 0)) return record;
  const value = unwrapped(record.value, unwrap);
  return meets(value, filter) ? { ...record, value } : { ...record, value, isLeftOut: true };
}

/** A stored body as ids, times and tables see it. */
export function storedValue(body: string, { unwrap = [] }: RecordSight): JsonValue {
  return unwrapped(parseJson(body), unwrap);
}

/** The records that are to be rows: those that the profile's filter does not leave out. */
export function takenIn(records: readonly SourceRecord[]): readonly SourceRecord[] {
  return records.some(({ isLeftOut }) => isLeftOut === true)
    ? records.filter(({ isLeftOut }) => isLeftOut !== true)
    : records;
}
