import type { ExactNumber, JsonObject, JsonValue } from '../../model/json.ts';

/** What the sandbox must know of a record; everything else of it stays text. */
export interface RecordFacts {
  /** The id as text (numbers by their source digits); null where there is no usable one. */
  id: string | null;
  /** Epoch milliseconds by which the record is sorted and filtered. */
  time: number;
}

/** Where a record's time is read from; the first field that holds a date wins. Records with none of them are from 1970. */
const TIME_FIELDS = ['updated_at', 'created_at', 'date'] as const;

type Reviver = (key: string, value: JsonValue, context: { source?: string }) => unknown;

// What Node 24 has and TypeScript's library does not declare yet.
const parse: (text: string, reviver: Reviver) => JsonValue = Reflect.get<object, string>(JSON, 'parse');
const rawJson: (text: string) => ExactNumber = Reflect.get(JSON, 'rawJSON');
const isExact: (value: unknown) => value is ExactNumber = Reflect.get(JSON, 'isRawJSON');

/** Parses JSON so that writing it again gives every number its source digits back. Throws SyntaxError. */
export function parseExactly(text: string): JsonValue {
  return parse(text, (_key, value, context) =>
    typeof value === 'number' && context.source !== undefined ? rawJson(context.source) : value,
  );
}

/** True for a JSON object (not an array, not null, not an exact number). */
export function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isExact(value);
}

/** Reads id and time of one record's JSON text; throws SyntaxError where it is no JSON. */
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

/** The id as it stands in a URL; null where a record has no id that could stand there. */
export function idText(id: JsonValue | undefined): string | null {
  if (typeof id === 'string') return id;
  if (typeof id === 'number') return String(id);
  return isExact(id) ? id.rawJSON : null;
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
