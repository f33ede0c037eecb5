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

/** The parts of an answer that may tell a number. */
interface CountingAnswer {
  headers: Readonly<Record<string, string | string[] | undefined>>;
  json: JsonValue;
}

/** The same at a place in the body or, written as `header:<name>`, in a header. */
export function countIn({ headers, json }: CountingAnswer, place: string | null): number | null {
  const name = place === null ? undefined : /^header:(.+)$/.exec(place)?.[1];
  if (name === undefined) return countAt(json, place);
  const value = headers[name.toLowerCase()];
  return typeof value === 'string' && /^\d{1,15}$/.test(value.trim()) ? Number(value) : null;
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
