// Requests a feed of changes, reads the entries of its responses, and finds the position after each.
//
// A feed such as `GET /changes?since=41` lists what was created, changed and deleted since a cursor, and names the next
// cursor, such as 42. An entry is a full record, only an id (then the record is fetched), or a delete. Services differ in
// where they name the cursor and whether a response has pages: the profile says so (`ChangeFeed`).
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
import { createGoneTest } from '../../pagination/read-item.ts';
import { isEmptyListing } from '../../pagination/requests/read-page.ts';
import { tombstoneOf } from '../../rows/columns/updated-time.ts';
import { isExact, parseJson } from '../../rows/json/parse-json.ts';
import { fieldAt, prepareRecord } from '../../rows/records/as-record.ts';
import { canonicalHash, recordKey } from '../../rows/records/record-key.ts';
import { selectRecord } from '../../rows/records/select-records.ts';
import type { ResourceContext } from '../resource-context.ts';

/** How far a feed was read: its cursor and, if the feed has pages, the next page; null at the beginning. */
interface FeedPosition {
  cursor: string | null;
  page: string | null;
}

/**
 * Returns the position after a response with these entries, and whether the feed ends there. `readCursor` returns the
 * cursor at a location in the response. Throws `SyncError`, and what `readCursor` throws.
 */
export function nextPosition(
  { next, last, next_page, more }: ChangeFeed,
  answer: ApiAnswer,
  entries: readonly JsonValue[],
  before: FeedPosition,
  readCursor: (location: string) => string | null,
): FeedPosition & { isEnd: boolean } {
  const page = next_page === null ? null : readCursor(next_page);
  if (page !== null) {
    if (page === before.page) throw feedStuckError(next_page ?? '');
    // Only the last page names the next cursor.
    return { cursor: before.cursor, page, isEnd: false };
  }
  let nextCursor: string | null = null;
  if (next !== null) nextCursor = readCursor(next);
  else if (last !== null) nextCursor = toCursor(fieldAt(entries.at(-1) ?? null, last));
  if (nextCursor === null && entries.length > 0) {
    const location = next ?? `${last ?? ''} of the last entry`;
    throw new SyncError('feed_refused', `The feed's answer has entries and no next cursor at ${location}`, {
      recovery: 'stop',
      hint: 'Set incremental.next (or last) in the profile to where the service names the next cursor.',
    });
  }
  const cursor = nextCursor ?? before.cursor;
  const isSame = cursor === before.cursor;
  // Without a field that says whether more follows, a last page, an empty response or the same cursor ends the feed.
  if (more === null) return { cursor, page: null, isEnd: next_page !== null || entries.length === 0 || isSame };
  const isEnd = NO_MORE.has(valueAt(answer, more));
  if (!isEnd && isSame) throw feedStuckError(more);
  return { cursor, page: null, isEnd };
}

/** Values by which services say that no more follows. */
const NO_MORE: ReadonlySet<unknown> = new Set([undefined, null, false, '', 0, 'false', '0']);

function feedStuckError(more: string): SyncError {
  const message = `The feed says at ${more} that more follows, but its cursor or next page stays the same`;
  return new SyncError('feed_refused', message, {
    recovery: 'stop',
    hint: 'Correct incremental.next, next_page and more in the profile, or report it to the service.',
  });
}

/** The value at a path in the body, or in a header. */
function valueAt({ json, headers }: ApiAnswer, location: string): JsonValue | undefined {
  if (!location.startsWith('header:')) return fieldAt(json, location);
  const value = headers[location.slice('header:'.length).trim().toLowerCase()];
  return Array.isArray(value) ? value[0] : value;
}

/** Converts a value to the text of a cursor; null if it is none. Cursors of CouchDB are JSON, which is sent back unchanged. */
function toCursor(found: JsonValue | undefined): string | null {
  if (found === undefined || found === null || found === '' || typeof found === 'boolean') return null;
  if (typeof found === 'string') return found;
  return isExact(found) ? found.rawJSON : JSON.stringify(found);
}

/** Reads the stored state of the feed; it has no cursor if none is stored for the feed as the profile declares it now. */
export async function readFeedState({ warehouse, owned, clock }: ResourceContext, feed: ChangeFeed): Promise<FeedRow> {
  const feedKey = { resource: owned.resource, feed: 'changes', fingerprint: hashFeed(feed) } as const;
  const stored = await readFeed(warehouse.own, feedKey);
  return stored ?? { ...feedKey, cursor: null, page: null, fresh: null, moved_at: timestampText(clock.now()) };
}

function hashFeed(feed: ChangeFeed): string {
  return canonicalHash(parseJson(JSON.stringify(feed)));
}

/**
 * Returns the cursor at a location in a response, as it is stored: the text itself, or the path and query of a URL without
 * what the profile adds. Null if there is none. Throws `SyncError` for a URL that must not be followed.
 */
export function cursorAt(
  { listing, scrub }: ResourceContext,
  feed: ChangeFeed,
  answer: ApiAnswer,
  location: string,
): string | null {
  const found = toCursor(valueAt(answer, location));
  if (found === null || !feed.url) return found;
  const position = linkedPosition(listing.baseUrl, answer.url, found);
  if (!('code' in position)) return storePosition(position, feed.query, scrub);
  throw new SyncError(position.code, position.message, { recovery: 'stop', hint: position.hint });
}

/**
 * Returns the cursor that the last page of a full scan names; null on any other page. Only if the profile says where
 * (`start.walk`): other feeds get their first cursor from a request before the scan, or have none.
 */
export function cursorOfScan(context: ResourceContext, { end, answer }: Page): string | null {
  const { feed } = context.profile;
  if (feed === null || feed.start === null || end === null || answer === undefined) return null;
  return 'walk' in feed.start ? cursorAt(context, feed, answer, feed.start.walk) : null;
}

/**
 * Returns the statement for the transaction of a full scan's last page by which the feed continues from that scan: from
 * the cursor that the page names, or else from the one that was fetched before the scan (`fresh`).
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

/** The changes in one response of a feed; of several entries for one record, the last one counts. */
export interface FeedChanges {
  /** Full records; one without a usable key is rejected when it is loaded. */
  records: SourceRecord[];
  /** Records that the feed names as deleted, with its own time of the delete (UTC text). */
  gone: { key: string; at: string | null }[];
  /** Keys of records that have to be fetched individually. */
  toFetch: string[];
}

/** The change that one entry reports. The record may be one that the profile's filter excludes. */
type Change = { kind: 'record'; record: SourceRecord } | { kind: 'deleted'; at: string | null } | { kind: 'only_id' };

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
    const isExcluded = change.kind === 'record' && change.record.isFilteredOut === true;
    const withId = change.kind === 'record' && feed.id === null ? change.record : entry;
    const found = recordKey(withId.value, feed.id ?? profile.id);
    if ('key' in found) {
      // Moves the key to the end, so that changes keep the order of the last entries.
      byKey.delete(found.key);
      byKey.set(found.key, isExcluded ? { kind: 'deleted', at: null } : change);
    } else if (isExcluded) continue;
    else if (change.kind === 'record') changes.records.push(change.record);
    else {
      throw new SyncError('feed_refused', `An entry of the feed names no record: ${found.reject.detail}`, {
        recovery: 'stop',
        hint: 'Set incremental.id in the profile to where an entry names the id of its record.',
      });
    }
  }
  for (const [key, change] of byKey) {
    if (change.kind === 'record') changes.records.push(change.record);
    else if (change.kind === 'deleted') changes.gone.push({ key, at: change.at });
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
  if (tombstone !== null) return { kind: 'deleted', at: tombstone.at };
  const found = record === null ? null : selectRecord(bytes, sent, record);
  return found === null ? { kind: 'only_id' } : { kind: 'record', record: prepareRecord(found, view) };
}

/** True if the entry passes the feed's `filter`: one feed may list the changes of several resources. */
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
  const position = page ?? cursor;
  let request = buildRequest(context, feed, { cursor, page });
  if (feed.url && position !== null) {
    const templates = { ...feed, path: feed.path ?? profile.path, query: {} };
    request = requestAt({ target: listing, templates, values: {} }, loadPosition(position, feed.query, {}));
  }
  const isExpired = createGoneTest(position === null ? null : feed.expired);
  let listsNothing = false;
  // The client skips a response that `isGone` accepts. `listsNothing` is true if it was skipped because it has no changes.
  const isGone: typeof isExpired = (found) => {
    const expired = isExpired(found);
    listsNothing = !expired && isEmptyListing(found, profile.empty, true);
    return expired || listsNothing;
  };
  const answer = await send(context, request, { isGone });
  if (answer.outcome === 'ok') return answer;
  return listsNothing ? { ...answer, outcome: 'ok' } : null;
}

/** Requests the response that names the current end of the feed. */
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
  options: Partial<ApiRequest>,
): Promise<ApiAnswer> {
  return client.get({ ...request, ...options, lane: 'incremental', meter, signal });
}
