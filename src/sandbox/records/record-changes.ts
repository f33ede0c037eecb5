import { randomBytes } from 'node:crypto';
import type { JsonObject, JsonValue } from '../../model/json.ts';
import { idText, isObject, parseExactly } from './record-facts.ts';

/** Something that happened to a record; the event's name is `<resource>.<kind>`. */
export const EVENT_KINDS = ['created', 'updated', 'deleted', 'published', 'unpublished'] as const;
export type EventKind = (typeof EVENT_KINDS)[number];

/** Reads the body of a write; 400 if it is no JSON, 422 if it is no object. */
export function recordIn(bytes: Uint8Array): JsonObject {
  const value = parsed(bytes);
  if (isObject(value)) return value;
  throw new RefusedRequest(422, 'A record must be a JSON object.');
}

/** The record that a create makes: with an id, generated if it has none, and the service's times. */
export function created(body: JsonObject, prefix: string, stamp: string | null): { id: string; record: JsonObject } {
  const given = body['id'] ?? `${prefix}${randomBytes(8).toString('hex')}`;
  const id = idText(given);
  if (id === null || id === '') throw new RefusedRequest(422, '"id" must be a text or a number.');
  const times = stamp === null ? {} : { created_at: stamp, updated_at: stamp };
  return { id, record: { id: given, ...body, ...times } };
}

/** The record that a PUT leaves: the body as a whole. `created_at` and the id stay as they were. */
export function replaced(before: JsonObject, body: JsonObject, stamp: string | null): JsonObject {
  checkId(before, body);
  const kept = before['created_at'] === undefined ? {} : { created_at: before['created_at'] };
  return { id: before['id'] ?? null, ...body, ...(stamp === null ? {} : { ...kept, updated_at: stamp }) };
}

/** The record that a PATCH leaves: top-level fields of the body over those that were there; null is a value. */
export function patched(before: JsonObject, body: JsonObject, stamp: string | null): JsonObject {
  checkId(before, body);
  return { ...before, ...body, ...(stamp === null ? {} : { updated_at: stamp }) };
}

/** The events of a change of a record's text; publishing is an event besides the change itself. */
export function eventsOf(before: string | null, after: string | null): EventKind[] {
  if (after === null) return ['deleted'];
  const change: EventKind = before === null ? 'created' : 'updated';
  const [was, is] = [isPublished(before), isPublished(after)];
  if (was === is) return [change];
  return [change, is ? 'published' : 'unpublished'];
}

function isPublished(text: string | null): boolean {
  const record: JsonValue = text === null ? null : JSON.parse(text);
  return isObject(record) && record['status'] === 'published';
}

function checkId(before: JsonObject, body: JsonObject): void {
  if (body['id'] === undefined || idText(body['id']) === idText(before['id'])) return;
  throw new RefusedRequest(422, 'The id of a record cannot be changed.');
}

function parsed(bytes: Uint8Array): JsonValue {
  try {
    return parseExactly(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    throw new RefusedRequest(400, 'The body is not valid JSON in UTF-8.');
  }
}

/** A request that is answered with an error status; the message says why. */
export class RefusedRequest extends Error {
  readonly status: number;
  readonly headers: Record<string, string | string[]>;

  constructor(status: number, detail: string, headers: Record<string, string | string[]> = {}) {
    super(detail);
    this.status = status;
    this.headers = headers;
  }
}
