import type { JsonObject, JsonValue } from '../../model/json.ts';

/** The parsed part of a record; the rest of it stays text. */
export interface RecordFacts {
  /** The id as text (numbers by their source digits); null if there is no usable one. */
  id: string | null;
  /** Epoch milliseconds by which the record is sorted and filtered. */
  time: number;
}

/** Where a record's time is read from; the first field that holds a date wins. Records with none of them are from 1970. */
const TIME_FIELDS = ['updated_at', 'created_at', 'date'] as const;

/** Parses JSON so that writing it again gives every number its source digits back. Throws SyntaxError. */
export function parseExactly(text: string): JsonValue {
  return JSON.parse(text, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined ? JSON.rawJSON(source) : value,
  );
}

/** True for a JSON object (not an array, not null, not an exact number). */
export function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value);
}

/** Reads id and time of one record's JSON text; throws SyntaxError if it is no JSON. */
export function factsOf(text: string): RecordFacts {
  const value: JsonValue = JSON.parse(text);
  if (!isObject(value)) return { id: null, time: 0 };
  return { id: typeof value['id'] === 'number' ? exactId(text) : idText(value['id']), time: timeOf(value) };
}

/** A 32-bit FNV-1a hash; spreads ids over the unsorted order, the same in every run. */
export function spread(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  return hash >>> 0;
}

/** The id as in a URL; null if a record has no id that can be used there. */
export function idText(id: JsonValue | undefined): string | null {
  if (typeof id === 'string') return id;
  if (typeof id === 'number') return String(id);
  return JSON.isRawJSON(id) ? id.rawJSON : null;
}

function exactId(text: string): string | null {
  const value = parseExactly(text);
  return isObject(value) ? idText(value['id']) : null;
}

function timeOf(record: JsonObject): number {
  for (const field of TIME_FIELDS) {
    const value = record[field];
    const time = typeof value === 'string' ? Date.parse(value) : Number.NaN;
    if (!Number.isNaN(time)) return time;
  }
  return 0;
}
