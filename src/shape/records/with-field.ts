import type { SourceRecord } from '../../model/json.ts';
import { CLOSE_BRACE, skipSpace } from '../json/scan-json.ts';
import { isObject } from './field-at.ts';

/**
 * The record with a field that its place says rather than itself: the key of a map, or the listing that it comes from.
 * It stands first in the record and in its body, whose other bytes stay as they are. A record that has the field, or is
 * no object, stays as it is.
 */
export function withField(record: SourceRecord, field: string, text: string): SourceRecord {
  const { value, bytes } = record;
  if (!isObject(value) || Object.hasOwn(value, field)) return record;
  const rest = bytes.subarray(1);
  const isEmpty = bytes[skipSpace(bytes, 1)] === CLOSE_BRACE;
  const member = `{${JSON.stringify(field)}:${JSON.stringify(text)}${isEmpty ? '' : ','}`;
  return { ...record, value: { [field]: text, ...value }, bytes: Buffer.concat([Buffer.from(member), rest]) };
}
