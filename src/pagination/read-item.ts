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

/** The parts by which single records of a resource are read. */
export interface ItemSource {
  client: ApiClient;
  listing: ListingTarget;
  profile: ResourceProfile;
  meter: RequestMeter;
  signal: AbortSignal;
}

/**
 * The result of fetching one record at a time (local epoch milliseconds). If it does not exist for the copy, `stated` is
 * the tombstone in the response, or `leftOut` the record that the profile's `filter` excludes.
 */
export type ItemReading =
  | { isThere: true; record: SourceRecord; requestedAt: number }
  | { isThere: false; requestedAt: number; stated?: Tombstone & { record: SourceRecord }; leftOut?: SourceRecord };

/**
 * Reads one record by its key (`rows/records/record-key.ts`). Throws what the client throws, and `SyncError` if the answer
 * is another record or none at all (`item_missing`).
 */
export async function readItem(source: ItemSource, key: string, lane: Lane): Promise<ItemReading> {
  const { client, profile, meter, signal } = source;
  const path = profile.item_record;
  const isRecord = (body: JsonValue): boolean => path === '' && isObject(body);
  const isDeclared = matchesGoneRule(profile.gone);
  const isGone: typeof isDeclared = (found) => found.status === NO_CONTENT || isDeclared(found);
  const wanted = { missing: 'skip', isGone, isRecord } as const;
  const answer = await client.get({ ...itemRequest(source, key), lane, meter, signal, ...wanted });
  const { requestedAt } = answer;
  if (answer.outcome === 'skip' && answer.status === NO_CONTENT) throw missingRecord(path);
  if (answer.outcome === 'skip') return { isThere: false, requestedAt };
  const selected = selectRecord(answer.bytes, answer.json, path, profile.key_field);
  if (selected === null) throw missingRecord(path);
  const { partition } = keyParts(profile, key);
  const { path: itemPath, query, headers } = itemTemplates(profile);
  const namesPartition = partition !== null && variablesIn([itemPath, query, headers]).includes('partition');
  const listed = namesPartition ? { field: profile.partitions?.field ?? '', value: partition } : null;
  const record = prepareRecord(withKeyField(selected, profile, key), { ...profile, partition: listed });
  const found = recordKey(record.value, profile.id);
  if ('key' in found && found.key === key) {
    const tombstone = tombstoneOf(record.value, profile);
    if (tombstone !== null) return { isThere: false, requestedAt, stated: { ...tombstone, record } };
    if (record.isFilteredOut === true) return { isThere: false, requestedAt, leftOut: record };
    return { isThere: true, record, requestedAt };
  }
  throw new SyncError('item_missing', `the service was asked for the record ${key} and answered with another one`, {
    recovery: 'stop',
    hint: 'check item, item_record and id of the resource in the profile',
  });
}

const NO_CONTENT = 204;

/** Errors of `readItem` for a response that is plainly something else than the requested record. */
const OTHER_ANSWERS: ReadonlySet<string> = new Set([
  'item_missing',
  'empty_body',
  'not_the_api',
  'origin_refused',
  'too_many_redirects',
]);

/** True if the service returned something else in place of a record; alone it does not show that the record is gone. */
export function isOtherAnswer({ code, recovery }: SyncError): boolean {
  return recovery !== 'skip' && OTHER_ANSWERS.has(code);
}

/** In a listing that is a map, the id is the key; a record that is fetched individually lacks it. */
function withKeyField(record: SourceRecord, profile: ResourceProfile, key: string): SourceRecord {
  const { id } = keyParts(profile, key);
  const { key_field } = profile;
  return id === null || key_field === null || ![profile.id].flat().includes(key_field)
    ? record
    : withField(record, key_field, id);
}

/** Returns a function that is true for the responses that the rule describes. */
export function matchesGoneRule(
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

/** The value of a listing goes where the listing itself has it, unless `item_query` says otherwise. */
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
  return new SyncError('item_missing', `the answer for a single record has no object ${location}`, {
    recovery: 'stop',
    hint: 'set item_record of the resource in the profile to where the record lies',
  });
}

/** A record's key taken apart. */
interface KeyParts {
  /** The listing that it comes from; null if the resource has one only, or the key does not say. */
  partition: string | null;
  /** The service's own id; null if several fields make it. */
  id: string | null;
}

/** Takes apart what `recordKey` made (`rows/records/record-key.ts`). */
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
