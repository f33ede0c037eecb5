import type { ExactNumber, JsonValue } from '../../model/json.ts';
import { isExact, isIntegerSource } from '../json/exact-number.ts';
import { fieldAt } from './field-at.ts';
import type { RejectReason, Rejection } from './record-limits.ts';

export { fieldAt } from './field-at.ts';

/** Postgres refuses index entries from 2,700 bytes; a thousand leaves room for composed and child keys. */
const MAX_KEY_BYTES = 1000;

/** The identity of a record as text; or the rejection of a record without one. */
export type RecordKey = { key: string } | { reject: Rejection };

/**
 * The record's identity at the dotted path `id`. A text is taken as it is, an integer by its source digits (so 5 and
 * "5" are one key); null, the empty text and a missing field are rejected.
 *
 * Several paths make one key, the JSON array of their values, in which a part may be null or empty: a dimension of a
 * report that is not set identifies its row as well. Null, "" and "null" are three parts, 5 and "5" are one. A
 * part that is missing is rejected: if the profile misspells it, it is missing in every record.
 */
export function recordKey(value: JsonValue, id: string | string[]): RecordKey {
  if (typeof id === 'string') return wholeKey(value, id);
  const parts: (string | null)[] = [];
  for (const path of id) {
    const field = fieldAt(value, path);
    if (field === null || field === '') {
      parts.push(field);
      continue;
    }
    const part = keyPart(field, path);
    if ('reject' in part) return part;
    parts.push(part.key);
  }
  const unfit = parts.find((part) => part !== null && !isCleanText(part));
  return withinLimits(unfit ?? JSON.stringify(parts), id.join(', '));
}

function wholeKey(value: JsonValue, path: string): RecordKey {
  const field = fieldAt(value, path);
  if (field === null) return rejected('id_null', `${path} is null`);
  if (field === '') return rejected('id_empty', `${path} is the empty text`);
  const part = keyPart(field, path);
  return 'reject' in part ? part : withinLimits(part.key, path);
}

function keyPart(field: Exclude<JsonValue, null> | undefined, path: string): RecordKey {
  if (field === undefined) return rejected('id_missing', `no field ${path}`);
  if (typeof field === 'string') return { key: field };
  if (typeof field === 'number' && Number.isSafeInteger(field)) return { key: String(field) };
  if (isExact(field) && isIntegerSource(field.rawJSON)) return { key: field.rawJSON };
  return rejected('id_type', `${path} is ${kindOf(field)}, expected a text or an integer`);
}

function withinLimits(key: string, path: string): RecordKey {
  if (!isCleanText(key)) return rejected('id_characters', `${path} holds a NUL or half a surrogate pair`);
  // A character is at most three bytes of UTF-8, so short ids need no counting.
  if (key.length * 3 <= MAX_KEY_BYTES || Buffer.byteLength(key) <= MAX_KEY_BYTES) return { key };
  return rejected('id_too_long', `${path} takes ${Buffer.byteLength(key)} bytes, at most ${MAX_KEY_BYTES} fit`);
}

function isCleanText(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0');
}

function kindOf(value: boolean | number | JsonValue[] | ExactNumber | object): string {
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'number' || isExact(value)) return 'a number with a fraction or exponent';
  return typeof value === 'boolean' ? 'a boolean' : 'an object';
}

function rejected(reason: RejectReason, detail: string): RecordKey {
  return { reject: { reason, detail } };
}
