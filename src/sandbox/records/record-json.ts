// Reads and changes the JSON records of the sandbox.
import { randomBytes } from 'node:crypto';
import type { JsonObject, JsonValue } from '../../model/json.ts';

/** Parses JSON so that writing it again gives every number its source digits. Throws SyntaxError. */
export function parseExactly(text: string): JsonValue {
  return JSON.parse(text, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined ? JSON.rawJSON(source) : value,
  );
}

/** True for a JSON object (not an array, null or an exact number). */
export function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value);
}

/** The first of these fields that holds a date is a record's time. */
const TIME_FIELDS = ['updated_at', 'created_at', 'date'] as const;

/** Reads the id as text, or null, and the time in epoch milliseconds, or 0. Throws SyntaxError. */
export function readIdAndTime(text: string): { id: string | null; time: number } {
  const value = parseExactly(text);
  if (!isObject(value)) return { id: null, time: 0 };
  const times = TIME_FIELDS.map((field) => (typeof value[field] === 'string' ? Date.parse(value[field]) : Number.NaN));
  return { id: toIdText(value['id']), time: times.find((time) => !Number.isNaN(time)) ?? 0 };
}

/** Formats an id for URLs; null if it is neither a text nor a number. */
function toIdText(id: JsonValue | undefined): string | null {
  if (typeof id === 'string') return id;
  return JSON.isRawJSON(id) ? id.rawJSON : null;
}

/** The error for a request that the sandbox answers with an error status. */
export class RefusedRequest extends Error {
  readonly status: number;
  readonly headers: Record<string, string | string[]>;

  constructor(status: number, detail: string, headers: Record<string, string | string[]> = {}) {
    super(detail);
    this.status = status;
    this.headers = headers;
  }
}

/** Parses the body of a write. Throws RefusedRequest: 400 if it is not JSON, 422 if it is not an object. */
export function parseRecord(bytes: Uint8Array): JsonObject {
  let value: JsonValue;
  try {
    value = parseExactly(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    throw new RefusedRequest(400, 'The body is not valid JSON in UTF-8.');
  }
  if (isObject(value)) return value;
  throw new RefusedRequest(422, 'A record must be a JSON object.');
}

/** The record of a POST: it gets an id, if it has none, and the service's times. */
export function createdRecord(
  body: JsonObject,
  prefix: string,
  time: string | null,
): { id: string; record: JsonObject } {
  const given = body['id'] ?? `${prefix}${randomBytes(8).toString('hex')}`;
  const id = toIdText(given);
  if (id === null || id === '') throw new RefusedRequest(422, '"id" must be a text or a number.');
  const times = time === null ? {} : { created_at: time, updated_at: time };
  return { id, record: { id: given, ...body, ...times } };
}

/** The record after a PATCH: top-level fields of the body replace those of before; null is a value. */
export function patchedRecord(before: JsonObject, body: JsonObject, time: string | null): JsonObject {
  if (body['id'] !== undefined && toIdText(body['id']) !== toIdText(before['id'])) {
    throw new RefusedRequest(422, 'The id of a record cannot be changed.');
  }
  return { ...before, ...body, ...(time === null ? {} : { updated_at: time }) };
}

/** A kind of event; the event's name is `<resource>.<kind>`. */
export type EventKind = 'created' | 'updated' | 'deleted' | 'published' | 'unpublished';

/** Returns the events of a change of a record's text. Publishing is an event in addition to the change. */
export function listEvents(before: string | null, after: string | null): EventKind[] {
  if (after === null) return ['deleted'];
  const change: EventKind = before === null ? 'created' : 'updated';
  const [wasPublished, isPublishedNow] = [isPublished(before), isPublished(after)];
  if (wasPublished === isPublishedNow) return [change];
  return [change, isPublishedNow ? 'published' : 'unpublished'];
}

function isPublished(text: string | null): boolean {
  const record: JsonValue = text === null ? null : JSON.parse(text);
  return isObject(record) && record['status'] === 'published';
}
