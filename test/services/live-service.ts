import type { Json } from '../support/expected-rows.ts';

export type JsonObject = { [key: string]: Json };

/** A record of the service by the text of its key; of a key of several fields, that is a JSON list. */
export interface TrueRecord {
  id: string;
  record: JsonObject;
}

/** One change that an editor makes. `hide`: it stays in the service, and what the profile copies no longer shows it. */
export type Edit = 'create' | 'update' | 'hide' | 'show' | 'remove';

/**
 * A real content service on this machine, as its own users know it: how it is read whole and edited, by code that
 * knows nothing of the product.
 */
export interface LiveService {
  /** Name of the script that starts it, and of the folder with what it remembers. */
  script: string;
  /** The shipped profile that is tried. */
  profile: string;
  baseUrl: string;
  /** Settings under `auth`. */
  auth: Record<string, unknown>;
  /** What the account's own collections add to the profile. */
  resources?: Record<string, unknown>;
  /** Its version, as `tried` of the profile names it. */
  version: string;
  /** Deletes records of the edited resource until so many are left. */
  shrink(left: number): Promise<void>;
  /** Resources that are compared; others are copied too. */
  compared: readonly string[];
  /** Everything that the service has of a resource. */
  truth(resource: string): Promise<TrueRecord[]>;
  /** Makes the edit to some record of the main resource that is in the right state. */
  edit(edit: Edit, nth: number): Promise<void>;
  /** The resource that is edited. */
  edited: string;
  /** Edits that make sense here. */
  edits: readonly Edit[];
}

/** One answer as JSON; throws for any other status than 2xx. */
export async function call(
  url: string,
  init: RequestInit & { json?: unknown } = {},
): Promise<{ json: Json; headers: Headers }> {
  const { json, ...rest } = init;
  const sent = json === undefined ? rest : { ...rest, body: JSON.stringify(json) };
  const type = json === undefined ? {} : { 'content-type': 'application/json' };
  const response = await fetch(url, {
    ...sent,
    headers: { ...type, ...Object.fromEntries(new Headers(rest.headers)) },
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${rest.method ?? 'GET'} ${url} ${response.status} ${text.slice(0, 300)}`);
  const parsed: Json = text === '' ? null : JSON.parse(text);
  return { json: parsed, headers: response.headers };
}

/** All pages, until one is not full. */
export async function allPages(size: number, page: (number: number) => Promise<Json>): Promise<JsonObject[]> {
  const found: JsonObject[] = [];
  for (let number = 1; ; number += 1) {
    const records = listOf(await page(number));
    found.push(...records);
    if (records.length < size) return found;
  }
}

export function listOf(value: Json | undefined): JsonObject[] {
  if (!Array.isArray(value)) throw new Error(`expected a list, got ${JSON.stringify(value)?.slice(0, 100)}`);
  return value.map(objectOf);
}

export function objectOf(value: Json | undefined): JsonObject {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new Error(`expected an object, got ${JSON.stringify(value)?.slice(0, 100)}`);
  }
  return value;
}

/** Each with the value of one field as its key. */
export function keyedBy(field: string, records: readonly JsonObject[]): TrueRecord[] {
  return records.map((record) => ({ id: textAt(record, field), record }));
}

/** A field that is a text or a number, as text. */
export function textAt(record: JsonObject | undefined, field: string): string {
  const value = record?.[field];
  if (typeof value === 'string' || typeof value === 'number') return String(value);
  throw new Error(`no ${field} in ${JSON.stringify(record)?.slice(0, 100)}`);
}
