import { snippet } from '../../http/body/safe-text.ts';
import type { JsonValue } from '../../model/json.ts';
import { isExact } from '../../shape/json/exact-number.ts';
import { fieldAt, isObject } from '../../shape/records/field-at.ts';

const NAMED_KEYS = 12;

/** A count of the service at a dotted path: a whole number, or one written as text; null for anything else. */
export function countAt(json: JsonValue, path: string | null): number | null {
  const value = path === null ? undefined : fieldAt(json, path);
  if (typeof value === 'number') return Number.isSafeInteger(value) && value >= 0 ? value : null;
  return typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : null;
}

/** The parts of an answer that may tell how many records there are, or of the next page. */
interface TellingAnswer {
  headers: Readonly<Record<string, string | string[] | undefined>>;
  json: JsonValue;
}

/** The same at a place in the body or, written as `header:<name>`, in a header. */
export function countIn(answer: TellingAnswer, place: string | null): number | null {
  const value = place === null ? null : (valueIn(answer, place) ?? null);
  return countAt(typeof value === 'string' ? value.trim() : value, '');
}

/** The value at such a place, a header's as text; undefined if there is none. */
export function valueIn({ headers, json }: TellingAnswer, place: string): JsonValue | undefined {
  const name = /^header:(.+)$/.exec(place)?.[1];
  if (name === undefined) return fieldAt(json, place);
  const value = headers[name.toLowerCase()];
  return Array.isArray(value) ? value.join(', ') : value;
}

/** The value that was found instead of the expected one, in words, for an error message. */
export function accountOf(value: JsonValue | undefined): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (isObject(value)) return `an object with ${keysOf(value)}`;
  return `the ${isExact(value) ? 'number' : typeof value} ${snippet(JSON.stringify(value))}`;
}

/** A body's shape as a sentence, so that a wrong path in a profile can be put right from the message alone. */
export function bodyAccount(json: JsonValue): string {
  if (Array.isArray(json)) return `The body is itself an array of ${json.length}, which has no keys.`;
  return `The body has ${keysOf(json)}.`;
}

function keysOf(json: JsonValue): string {
  const keys = isObject(json) ? Object.keys(json) : [];
  if (keys.length === 0) return 'no keys';
  const named = keys.slice(0, NAMED_KEYS).map((key) => snippet(JSON.stringify(key), 62));
  const rest = keys.length - named.length;
  return `the keys ${named.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}
