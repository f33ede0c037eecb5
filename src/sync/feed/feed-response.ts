// One response of a feed of changes: its request, its entries, and the position after it.
//
// A feed such as `GET /changes?since=<cursor>` returns what was created, changed and deleted since a cursor, and the next
// cursor. Entries are full records, only ids (then each record is fetched), or deletes. Some feeds have pages within a
// response, some name the cursor as a URL, some only in the last page of a full scan: the profile says which.
import { type CompiledQuery, sql } from 'kysely';
import type { TemplateValues } from '../../config/profile/basic-fields.ts';
import type { ChangeFeed } from '../../config/profile/delete-fields.ts';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import type { FeedRow } from '../../database/own-tables.ts';
import { readFeed, saveFeed } from '../../database/state/checkpoints.ts';
import type { ApiAnswer, ApiRequest } from '../../http/client.ts';
import { SyncError } from '../../model/errors.ts';
import type { JsonValue, SourceRecord } from '../../model/json.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import {
  type BuiltRequest,
  linkedPosition,
  requestAt,
  singleRequest,
} from '../../pagination/page-styles/listing-request.ts';
import { loadPosition, storePosition } from '../../pagination/page-styles/page-position.ts';
import type { Page } from '../../pagination/page.ts';
import { matchesGoneRule } from '../../pagination/read-item.ts';
import { saysNothing } from '../../pagination/requests/read-page.ts';
import { tombstoneOf } from '../../rows/columns/updated-time.ts';
import { isExact, parseJson } from '../../rows/json/parse-json.ts';
import { fieldAt, prepareRecord } from '../../rows/records/as-record.ts';
import { canonicalHash, recordKey } from '../../rows/records/record-key.ts';
import { selectRecord } from '../../rows/records/select-records.ts';
import type { ResourceContext } from '../resource-context.ts';

/** How far a feed was read: its cursor, and the next page in a feed that has pages. */
interface FeedPosition {
  cursor: string | null;
  page: string | null;
}

/**
 * The position after a response with these entries, and whether the feed ends there. `read` returns the cursor at a place
 * of the response. Throws `SyncError`, and what `read` throws.
 */
export function nextPosition(
  { next, last, next_page, more }: ChangeFeed,
  answer: ApiAnswer,
  entries: readonly JsonValue[],
  before: FeedPosition,
  read: (place: string) => string | null = (place) => toCursor(valueAt(answer, place)),
): FeedPosition & { isEnd: boolean } {
  const page = next_page === null ? null : read(next_page);
  if (page !== null) {
    if (page === before.page) throw feedStuckError(next_page ?? '');
    return { cursor: before.cursor, page, isEnd: false };
  }
  let cursor: string | null = null;
  if (next !== null) cursor = read(next);
  else if (last !== null) cursor = toCursor(fieldAt(entries.at(-1) ?? null, last));
  if (cursor === null && entries.length > 0) {
    const place = next ?? `${last ?? ''} of the last entry`;
    throw new SyncError('feed_refused', `The feed's answer has entries and no next cursor at ${place}`, {
      recovery: 'stop',
      hint: 'Set incremental.next (or last) in the profile to where the service names the next cursor.',
    });
  }
  cursor ??= before.cursor;
  const isSame = cursor === before.cursor;
  if (more === null) return { cursor, page: null, isEnd: next_page !== null || entries.length === 0 || isSame };
  const isEnd = FALSY_VALUES.some((none) => none === valueAt(answer, more));
  if (!isEnd && isSame) throw feedStuckError(more);
  return { cursor, page: null, isEnd };
}

/** Forms in which services say that no more follows. */
const FALSY_VALUES = [undefined, null, false, '', 0, 'false', '0'];

function feedStuckError(more: string): SyncError {
  const message = `The feed says at ${more} that more follows, but its cursor or next page stays the same`;
  return new SyncError('feed_refused', message, {
    recovery: 'stop',
    hint: 'Correct incremental.next, next_page and more in the profile, or report it to the service.',
  });
}

/** The value at a path in the body, or in a header. */
function valueAt({ json, headers }: ApiAnswer, place: string): JsonValue | undefined {
  if (!place.startsWith('header:')) return fieldAt(json, place);
  const value = headers[place.slice('header:'.length).trim().toLowerCase()];
  return Array.isArray(value) ? value[0] : value;
}

/** Some services, such as CouchDB, have cursors that are JSON themselves: they are sent back unchanged. */
function toCursor(found: JsonValue | undefined): string | null {
  if (found === undefined || found === null || found === '' || typeof found === 'boolean') return null;
  if (typeof found === 'string') return found;
  return isExact(found) ? found.rawJSON : JSON.stringify(found);
}

/** The stored state of the feed; without a cursor if none exists for this profile. */
export async function readFeedState({ warehouse, owned, clock }: ResourceContext, feed: ChangeFeed): Promise<FeedRow> {
  const feedKey = { resource: owned.resource, feed: 'changes', fingerprint: hashFeed(feed) } as const;
  const known = await readFeed(warehouse.own, feedKey);
  return known ?? { ...feedKey, cursor: null, page: null, fresh: null, moved_at: timestampText(clock.now()) };
}

function hashFeed(feed: ChangeFeed): string {
  return canonicalHash(parseJson(JSON.stringify(feed)));
}

/**
 * The cursor at a place of a response, as it is stored: the text itself, or the path and query of a URL without what the
 * profile adds. Null if none exists. Throws `SyncError` for a URL that must not be followed.
 */
export function cursorAt(
  { listing, scrub }: ResourceContext,
  feed: ChangeFeed,
  answer: ApiAnswer,
  place: string,
): string | null {
  const found = toCursor(valueAt(answer, place));
  if (found === null || !feed.url) return found;
  const position = linkedPosition(listing.baseUrl, answer.url, found);
  if (!('code' in position)) return storePosition(position, feed.query, scrub);
  throw new SyncError(position.code, position.message, { recovery: 'stop', hint: position.hint });
}

/**
 * The cursor that the last page of a full scan names; null on any other page. With `walk` (a scan), the profile says where that
 * page names it; otherwise a request before the scan fetches the first cursor (`fresh`), or the feed has no start.
 */
export function cursorOfScan(context: ResourceContext, { end, answer }: Page): string | null {
  const { feed } = context.profile;
  if (feed === null || feed.start === null || end === null || answer === undefined) return null;
  return 'walk' in feed.start ? cursorAt(context, feed, answer, feed.start.walk) : null;
}

/**
 * The statement in the transaction of a full scan's last page by which the feed continues from there: from the cursor
 * that the page named, or else from `fresh`, the one that was fetched before the scan.
 */
export function continueAfterScan(context: ResourceContext, named: string | null): CompiledQuery[] {
  const { warehouse, owned, profile, clock } = context;
  const { feed } = profile;
  if (feed === null) return [];
  const { own } = warehouse;
  const { resource } = owned;
  if (named !== null) {
    const row = { resource, feed: 'changes', fingerprint: hashFeed(feed), page: null, fresh: null } as const;
    return [saveFeed(own, { ...row, cursor: named, moved_at: timestampText(clock.now()) })];
  }
  return [
    own
      .updateTable('_sync_feeds')
      .set({ cursor: sql<string>`fresh`, page: null, fresh: null })
      .where('resource', '=', resource)
      .where('feed', '=', 'changes')
      .where('fresh', 'is not', null)
      .compile(),
  ];
}

/** What one response of a feed says about its records; the last entry of each record counts. */
export interface FeedChanges {
  /** Full records; one without a usable key is rejected when it is loaded. */
  records: SourceRecord[];
  /** Records that the feed names as deleted, with its own time of the delete (UTC text). */
  gone: { key: string; at: string | null }[];
  /** Keys of records that have to be fetched individually. */
  toFetch: string[];
}

/** What one entry says; the filter of the profile may exclude its record. */
type Change = { is: 'record'; record: SourceRecord } | { is: 'deleted'; at: string | null } | { is: 'named' };

/**
 * Reads the entries of a response. A record that the profile's filter excludes counts as deleted. Throws `SyncError`
 * (`feed_refused`) for an entry that names no record. Pure.
 */
export function changesIn(entries: readonly SourceRecord[], feed: ChangeFeed, profile: ResourceProfile): FeedChanges {
  const byKey = new Map<string, Change>();
  const changes: FeedChanges = { records: [], gone: [], toFetch: [] };
  for (const sent of entries) {
    const entry = prepareRecord(sent, { unwrap: profile.unwrap });
    if (!isAboutResource(entry.value, feed)) continue;
    // The record is selected from the entry as it was sent.
    const change = toChange({ ...entry, sent: sent.value }, feed, profile);
    const isExcluded = change.is === 'record' && change.record.isFilteredOut === true;
    const withId = change.is === 'record' && feed.id === null ? change.record : entry;
    const found = recordKey(withId.value, feed.id ?? profile.id);
    if ('key' in found) {
      // Moves the key to the end, so that changes keep the order of the last entries.
      byKey.delete(found.key);
      byKey.set(found.key, isExcluded ? { is: 'deleted', at: null } : change);
    } else if (isExcluded) continue;
    else if (change.is === 'record') changes.records.push(change.record);
    else {
      throw new SyncError('feed_refused', `An entry of the feed names no record: ${found.reject.detail}`, {
        recovery: 'stop',
        hint: 'Set incremental.id in the profile to where an entry names the id of its record.',
      });
    }
  }
  for (const [key, change] of byKey) {
    if (change.is === 'record') changes.records.push(change.record);
    else if (change.is === 'deleted') changes.gone.push({ key, at: change.at });
    else changes.toFetch.push(key);
  }
  return changes;
}

function toChange(
  { value, bytes, sent }: SourceRecord & { sent: JsonValue },
  { record, deleted }: ChangeFeed,
  { times, ...view }: ResourceProfile,
): Change {
  const tombstone = tombstoneOf(value, { deleted, times });
  if (tombstone !== null) return { is: 'deleted', at: tombstone.at };
  const found = record === null ? null : selectRecord(bytes, sent, record);
  return found === null ? { is: 'named' } : { is: 'record', record: prepareRecord(found, view) };
}

export function isAboutResource(value: JsonValue, { filter }: { filter: ChangeFeed['filter'] }): boolean {
  return filter.every(({ field, in: values }) => {
    const found = fieldAt(value, field);
    if (found === undefined || found === null) return false;
    const text = typeof found === 'string' ? found : JSON.stringify(found);
    return values.some((one) => String(one) === text);
  });
}

type FeedRequest = Pick<ChangeFeed, 'path' | 'method' | 'query' | 'headers' | 'body'>;

/** Requests the feed from a position; null if the service no longer accepts this cursor. Throws what the client throws. */
export async function requestFeed(
  context: ResourceContext,
  feed: ChangeFeed,
  { cursor, page }: FeedPosition,
): Promise<ApiAnswer | null> {
  const { listing, profile } = context;
  const from = page ?? cursor;
  let request = buildRequest(context, feed, { cursor, page });
  if (feed.url && from !== null) {
    const templates = { ...feed, path: feed.path ?? profile.path, query: {} };
    request = requestAt({ target: listing, templates, values: {} }, loadPosition(from, feed.query, {}));
  }
  const isExpired = matchesGoneRule(from === null ? null : feed.expired);
  // The client calls this for each response except limits and refused credentials; `isEmpty` says below why it was skipped.
  let isEmpty = false;
  const isGone: typeof isExpired = (found) => {
    const expired = isExpired(found);
    isEmpty = !expired && saysNothing(found, profile.empty, true);
    return expired || isEmpty;
  };
  const answer = await send(context, request, { isGone });
  if (answer.outcome === 'ok') return answer;
  return isEmpty ? { ...answer, outcome: 'ok' } : null;
}

/** Requests the response that names the present end of the feed. */
export function requestStart(context: ResourceContext, start: FeedRequest): Promise<ApiAnswer> {
  return send(context, buildRequest(context, start, {}), {});
}

function buildRequest(
  { listing, profile }: ResourceContext,
  request: FeedRequest,
  values: TemplateValues,
): BuiltRequest {
  return singleRequest({ target: listing, templates: { ...request, path: request.path ?? profile.path }, values });
}

function send(
  { client, meter, signal }: ResourceContext,
  request: BuiltRequest,
  known: Partial<ApiRequest>,
): Promise<ApiAnswer> {
  return client.get({ ...request, ...known, lane: 'incremental', meter, signal });
}
