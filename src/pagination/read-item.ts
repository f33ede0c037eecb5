// Fetches one record by its key, such as `/v1/content/17`: after a webhook, and to verify that a record is really
// deleted.
import { fillTemplate, parsePlace, variablesIn } from '../config/profile/basic-fields.ts';
import type { GoneRule } from '../config/profile/delete-fields.ts';
import type { ResourceProfile } from '../config/profile/profile.ts';
import type { ApiClient, RequestMeter } from '../http/client.ts';
import { bodyMatches } from '../http/outcome/outcome-table.ts';
import { SyncError } from '../model/errors.ts';
import type { JsonValue, SourceRecord } from '../model/json.ts';
import type { Lane } from '../model/vocabulary.ts';
import { type Tombstone, tombstoneOf } from '../rows/columns/updated-time.ts';
import { isObject, prepareRecord, withField } from '../rows/records/as-record.ts';
import { recordKey } from '../rows/records/record-key.ts';
import { selectRecord } from '../rows/records/select-records.ts';
import { type BuiltRequest, type ListingTarget, singleRequest } from './page-styles/listing-request.ts';

/** What a request for a single record of a resource needs. */
export interface ItemSource {
  client: ApiClient;
  listing: ListingTarget;
  profile: ResourceProfile;
  meter: RequestMeter;
  signal: AbortSignal;
}

/**
 * The response for one record, and when it was requested (local epoch milliseconds). `isThere` is false if the copy must
 * not have the record: it does not exist, is marked as deleted (`tombstone`), or the profile's `filter` excludes it.
 */
export type ItemReading =
  | { isThere: true; record: SourceRecord; requestedAt: number }
  | { isThere: false; requestedAt: number; tombstone?: Tombstone & { record: SourceRecord }; excluded?: SourceRecord };

/**
 * Reads one record by its key (`rows/records/record-key.ts`). Throws what the client throws, and `SyncError` if the
 * response is another record or none at all (`item_missing`).
 */
export async function readItem(source: ItemSource, key: string, lane: Lane): Promise<ItemReading> {
  const { client, profile, meter, signal } = source;
  const path = profile.item_record;
  const isDeclaredGone = createGoneTest(profile.gone);
  const answer = await client.get({
    ...itemRequest(source, key),
    lane,
    meter,
    signal,
    missing: 'skip',
    isGone: (response) => response.status === NO_CONTENT || isDeclaredGone(response),
    isRecord: (body) => path === '' && isObject(body),
  });
  const { requestedAt } = answer;
  if (answer.outcome === 'skip' && answer.status !== NO_CONTENT) return { isThere: false, requestedAt };
  const selected = answer.outcome === 'skip' ? null : selectRecord(answer.bytes, answer.json, path, profile.key_field);
  if (selected === null) throw missingRecord(path);
  const record = prepareItem(selected, profile, key);
  const found = recordKey(record.value, profile.id);
  if (!('key' in found) || found.key !== key) {
    throw new SyncError('item_missing', `the record ${key} was requested, and the service returned another one`, {
      recovery: 'stop',
      hint: 'check item, item_record and id of the resource in the profile',
    });
  }
  const tombstone = tombstoneOf(record.value, profile);
  if (tombstone !== null) return { isThere: false, requestedAt, tombstone: { ...tombstone, record } };
  return record.isFilteredOut === true
    ? { isThere: false, requestedAt, excluded: record }
    : { isThere: true, record, requestedAt };
}

const NO_CONTENT = 204;

/** Error codes of `readItem` for a response that cannot be the requested record. */
const OTHER_ANSWERS: ReadonlySet<string> = new Set([
  'item_missing',
  'empty_body',
  'not_the_api',
  'origin_refused',
  'too_many_redirects',
]);

/** True if the service returned something else than the record, which alone does not prove that the record is deleted. */
export function isOtherAnswer({ code, recovery }: SyncError): boolean {
  return recovery !== 'skip' && OTHER_ANSWERS.has(code);
}

/**
 * Completes the record as the listing has it: adds the id if the listing is a map from ids to records, and the partition
 * if the request was limited to it.
 */
function prepareItem(selected: SourceRecord, profile: ResourceProfile, key: string): SourceRecord {
  const { key_field, partitions } = profile;
  const { id, partition } = keyParts(profile, key);
  const isMapKey = id !== null && key_field !== null && [profile.id].flat().includes(key_field);
  const { path, query, headers } = itemTemplates(profile);
  const isLimited = partition !== null && variablesIn([path, query, headers]).includes('partition');
  return prepareRecord(isMapKey ? withField(selected, key_field, id) : selected, {
    ...profile,
    partition: isLimited ? { field: partitions?.field ?? '', value: partition } : null,
  });
}

/** Creates the test whether the rule describes a response. */
export function createGoneTest(
  rule: GoneRule | null,
): (answer: { status: number; json: JsonValue | undefined }) => boolean {
  if (rule === null) return () => false;
  const { status, body } = rule;
  return (answer) => status.includes(answer.status) && (body === undefined || bodyMatches(answer.json, body));
}

function itemRequest({ listing, profile }: ItemSource, key: string): BuiltRequest {
  if (profile.item === null) throw unreadable('the profile has no path for a single record');
  const values = { ...keyParts(profile, key) };
  if (values.id === null) throw unreadable('several fields identify the record');
  const templates = itemTemplates(profile);
  try {
    fillTemplate(templates.path, values, 'path');
  } catch (error) {
    throw unreadable(`no path can be made of the id ${JSON.stringify(key.slice(0, 100))}`, error);
  }
  return singleRequest({ target: listing, templates, values });
}

/** Sends the partition in the same parameter or header as the listing does, unless `item_query` sets the query. */
function itemTemplates({ item, item_query, query, headers, partitions }: ResourceProfile) {
  const path = item ?? '';
  if (item_query !== 'inherit') return { path, query: item_query, headers };
  const param = partitions === null || partitions.param === null ? null : parsePlace(partitions.param);
  return {
    path,
    query: param?.in === 'query' ? { ...query, [param.name]: '{partition}' } : query,
    headers: param?.in === 'header' ? { ...headers, [param.name]: '{partition}' } : headers,
  };
}

function unreadable(message: string, cause?: unknown): SyncError {
  return new SyncError('item_missing', message, { recovery: 'skip', cause });
}

function missingRecord(path: string): SyncError {
  const location = path === '' ? 'as its body' : `at ${path}`;
  return new SyncError('item_missing', `the response for a single record has no object ${location}`, {
    recovery: 'stop',
    hint: 'set item_record of the resource in the profile to the path of the record in the response',
  });
}

/** The values in a record's key. */
interface KeyParts {
  /** The partition whose listing has the record; null if the resource has only one listing, or the key lacks it. */
  partition: string | null;
  /** The service's id; null if it consists of several fields. */
  id: string | null;
}

/** Splits a key that `recordKey` has made (`rows/records/record-key.ts`). */
export function keyParts({ partitions, id }: ResourceProfile, key: string): KeyParts {
  if (typeof id === 'string') return { partition: null, id: key };
  if (partitions === null) return { partition: null, id: null };
  const parts = partsIn(key);
  const at = id.indexOf(partitions.field);
  const others = parts.filter((_, index) => index !== at);
  return { partition: toText(parts[at]), id: others.length === 1 ? toText(others[0]) : null };
}

function partsIn(key: string): readonly unknown[] {
  try {
    const parts: unknown = JSON.parse(key);
    return Array.isArray(parts) ? parts : [];
  } catch {
    return [];
  }
}

function toText(part: unknown): string | null {
  return typeof part === 'string' ? part : null;
}
