import type { ExactNumber, JsonValue } from '../model/json.ts';
import { isExact, isIntegerSource } from './exact-number.ts';
import { fieldAt } from './field-at.ts';
import type { RejectReason, SetAside } from './set-aside.ts';

export { fieldAt } from './field-at.ts';

/** Postgres refuses index entries from 2,700 bytes; a thousand leaves room for composed and child keys. */
const MAX_KEY_BYTES = 1000;

/** What tells one record from all others, as text exactly as sent; or why this record has none. */
export type RecordKey = { key: string } | { reject: SetAside };

/**
 * The record's identity at the dotted path `id`. A string stands as it is, an integer by its source digits (so 5 and
 * "5" are one key). Several paths make one key: the JSON array of their texts.
 */
export function recordKey(value: JsonValue, id: string | string[]): RecordKey {
  if (typeof id === 'string') return withinLimits(keyPart(value, id), id);
  const parts: string[] = [];
  for (const path of id) {
    const part = keyPart(value, path);
    if ('reject' in part) return part;
    parts.push(part.key);
  }
  const unfit = parts.find((part) => !isCleanText(part));
  if (unfit !== undefined) return withinLimits({ key: unfit }, id.join(', '));
  return withinLimits({ key: JSON.stringify(parts) }, id.join(', '));
}

function keyPart(value: JsonValue, path: string): RecordKey {
  const field = fieldAt(value, path);
  if (field === undefined) return rejected('id_missing', `no field ${path}`);
  if (field === null) return rejected('id_null', `${path} is null`);
  if (field === '') return rejected('id_empty', `${path} is the empty text`);
  if (typeof field === 'string') return { key: field };
  if (typeof field === 'number' && Number.isSafeInteger(field)) return { key: String(field) };
  if (isExact(field) && isIntegerSource(field.rawJSON)) return { key: field.rawJSON };
  return rejected('id_type', `${path} is ${kindOf(field)}, expected a text or an integer`);
}

function withinLimits(part: RecordKey, path: string): RecordKey {
  if ('reject' in part) return part;
  if (!isCleanText(part.key)) return rejected('id_characters', `${path} holds a NUL or half a surrogate pair`);
  // A character is at most three bytes of UTF-8, so short ids need no counting.
  if (part.key.length * 3 <= MAX_KEY_BYTES || Buffer.byteLength(part.key) <= MAX_KEY_BYTES) return part;
  return rejected('id_too_long', `${path} takes ${Buffer.byteLength(part.key)} bytes, at most ${MAX_KEY_BYTES} fit`);
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
