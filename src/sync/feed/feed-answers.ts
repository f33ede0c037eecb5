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
  urlAt,
} from '../../pagination/page-styles/listing-request.ts';
import type { Page } from '../../pagination/page.ts';
import { goneBy } from '../../pagination/read-item.ts';
import { saysNothing, withEmptyHint } from '../../pagination/requests/ask.ts';
import { isExact } from '../../rows/json/exact-number.ts';
import { parseJson } from '../../rows/json/parse-json.ts';
import { asRecord } from '../../rows/records/as-record.ts';
import { fieldAt } from '../../rows/records/field-at.ts';
import { canonicalHash } from '../../rows/records/fingerprint.ts';
import { recordKey } from '../../rows/records/record-key.ts';
import { selectRecord } from '../../rows/records/select-records.ts';
import { tombstoneOf } from '../../rows/tombstone.ts';
import type { ResourceContext } from '../resource-context.ts';
import { positionFrom, storedPosition } from '../walk/stored-walk.ts';

/** Where a reading of the feed stands: its cursor, and the page behind it in a feed that has pages. */
interface FeedPlace {
  cursor: string | null;
  page: string | null;
}

/** The part of an answer that says how the feed goes on. */
type FeedAnswer = Pick<ApiAnswer, 'json' | 'headers'>;

/**
 * The place after an answer with these entries, and whether it is the end of the feed. `read` gives a cursor as it is
 * kept. Throws `SyncError`, and what `read` throws.
 */
export function feedStep(
  feed: Pick<ChangeFeed, 'next' | 'last' | 'next_page' | 'more'>,
  { answer, entries }: { answer: FeedAnswer; entries: readonly JsonValue[] },
  before: FeedPlace,
  read: (place: string) => string | null = (place) => placeAt(answer, place),
): FeedPlace & { isEnd: boolean } {
  const page = feed.next_page === null ? null : read(feed.next_page);
  if (page !== null && page === before.page) throw goesInCircles(feed.next_page ?? '');
  if (page !== null) return { cursor: before.cursor, page, isEnd: false };
  const last = feed.last === null ? undefined : fieldAt(entries.at(-1) ?? null, feed.last);
  const named = feed.next === null ? tokenOf(last) : read(feed.next);
  const cursor = named ?? (entries.length === 0 ? before.cursor : null);
  if (cursor === null && entries.length > 0) throw missing(feed.next ?? `${feed.last ?? ''} of the last entry`);
  const isSame = cursor === before.cursor;
  if (feed.more === null)
    return { cursor, page: null, isEnd: feed.next_page !== null || entries.length === 0 || isSame };
  const isEnd = !hasMore(valueAt(answer, feed.more));
  if (!isEnd && isSame) throw goesInCircles(feed.more);
  return { cursor, page: null, isEnd };
}

/** The text at a path in the body or in a header; null if there is none. */
function placeAt(answer: FeedAnswer, place: string): string | null {
  return tokenOf(valueAt(answer, place));
}

function valueAt({ json, headers }: FeedAnswer, place: string): JsonValue | undefined {
  if (!place.startsWith('header:')) return fieldAt(json, place);
  const value = headers[place.slice('header:'.length).trim().toLowerCase()];
  return Array.isArray(value) ? value[0] : value;
}

/** CouchDB-like services have cursors that are JSON themselves: they go back as they came. */
function tokenOf(found: JsonValue | undefined): string | null {
  if (found === undefined || found === null || found === '' || typeof found === 'boolean') return null;
  if (typeof found === 'string') return found;
  return isExact(found) ? found.rawJSON : JSON.stringify(found);
}

function hasMore(found: JsonValue | undefined): boolean {
  if (found === undefined || found === null || found === false || found === '' || found === 0) return false;
  return found !== 'false' && found !== '0';
}

function missing(place: string): SyncError {
  return new SyncError('feed_cursor_missing', `The feed's answer has entries and no next cursor at ${place}`, {
    recovery: 'stop',
    hint: 'Set incremental.next (or last) in the profile to where the service names the next cursor.',
  });
}

function goesInCircles(more: string): SyncError {
  return new SyncError(
    'feed_stands_still',
    `The feed says at ${more} that more follows, and its cursor does not move`,
    {
      recovery: 'stop',
      hint: 'Set incremental.next and more in the profile right, or report it to the service.',
    },
  );
}

type PlaceContext = Pick<ResourceContext, 'warehouse' | 'owned' | 'clock'>;

/** Where the feed of changes was left; without a cursor if it has to be begun. */
export async function feedPlace({ warehouse, owned, clock }: PlaceContext, feed: ChangeFeed): Promise<FeedRow> {
  const place = { resource: owned.resource, feed: 'changes', fingerprint: fingerprintOf(feed) } as const;
  const known = await readFeed(warehouse.own, place);
  return known ?? { ...place, cursor: null, page: null, fresh: null, moved_at: timestampText(clock.now()) };
}

function fingerprintOf(feed: ChangeFeed): string {
  return canonicalHash(parseJson(JSON.stringify(feed)));
}

/**
 * A cursor of the feed at a place of an answer, as it is stored: the text itself, or the path and query of a URL, without
 * what the profile adds to it. Null if there is none. Throws `SyncError` for a URL that may not be followed.
 */
export function cursorAt(
  { listing, scrub }: Pick<ResourceContext, 'listing' | 'scrub'>,
  feed: ChangeFeed,
  answer: Pick<ApiAnswer, 'json' | 'headers' | 'url'>,
  place: string,
): string | null {
  const found = placeAt(answer, place);
  if (found === null || !feed.url) return found;
  const position = linkedPosition(listing.baseUrl, answer.url, found);
  if (typeof position === 'string') return storedPosition(position, feed.query, scrub);
  throw new SyncError(position.code, position.message, { recovery: 'stop', hint: position.hint });
}

/** The cursor that the last page of a whole walk names; null in any other feed, and on any other page. */
export function walkedCursor(context: ResourceContext, { end, answer }: Pick<Page, 'end' | 'answer'>): string | null {
  const { feed } = context.profile;
  if (feed === null || feed.start === null || end === null || answer === undefined) return null;
  return 'walk' in feed.start ? cursorAt(context, feed, answer, feed.start.walk) : null;
}

/**
 * The statement by which the feed goes on from a whole walk: from the cursor that the walk named, or from the one that
 * was taken before it began; belongs to its last page's transaction.
 */
export function goOnAfterWalk(context: ResourceContext, named: string | null): CompiledQuery[] {
  const { warehouse, owned, profile, clock } = context;
  const { feed } = profile;
  if (feed === null) return [];
  const { own } = warehouse;
  const { resource } = owned;
  if (named !== null) {
    const row = { resource, feed: 'changes', fingerprint: fingerprintOf(feed), page: null, fresh: null } as const;
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

/** What one answer of a feed says of its records, the last word of each. */
export interface FeedChanges {
  /** Whole records; one without a usable key is set aside when it is loaded. */
  records: SourceRecord[];
  /** Records that the feed names as deleted, and its own time of that (UTC text). */
  gone: { key: string; at: string | null }[];
  /** Keys of records that are to be read alone. */
  named: string[];
}

type Change = { record: SourceRecord } | { gone: string | null } | { named: true };

/** The part of a resource's profile by which the entries of its feed are read. */
type FedResource = Pick<ResourceProfile, 'id' | 'times' | 'unwrap' | 'filter'> & Partial<Pick<ResourceProfile, 'mask'>>;

/**
 * A record that the filter leaves out is gone. Throws `SyncError` (`bad_feed_entry`) for an entry that says of no record
 * what became of it. Pure.
 */
export function changesIn(entries: readonly SourceRecord[], feed: ChangeFeed, profile: FedResource): FeedChanges {
  const byKey = new Map<string, Change>();
  const unkeyed: SourceRecord[] = [];
  for (const sent of entries) {
    const entry = asRecord(sent, { unwrap: profile.unwrap });
    if (!isMeant(entry.value, feed)) continue;
    const change = changeOf({ ...entry, sent: sent.value }, feed, profile);
    const isLeftOut = 'record' in change && change.record.isLeftOut === true;
    const inside = 'record' in change && feed.id === null ? change.record : entry;
    const found = recordKey(inside.value, feed.id ?? profile.id);
    if ('key' in found) {
      // Behind all that was said before.
      byKey.delete(found.key);
      byKey.set(found.key, isLeftOut ? { gone: null } : change);
    } else if (isLeftOut) continue;
    else if ('record' in change) unkeyed.push(change.record);
    else throw nameless(found.reject.detail);
  }
  const changes = [...byKey];
  return {
    records: [...unkeyed, ...changes.flatMap(([, change]) => ('record' in change ? [change.record] : []))],
    gone: changes.flatMap(([key, change]) => ('gone' in change ? [{ key, at: change.gone }] : [])),
    named: changes.flatMap(([key, change]) => ('named' in change ? [key] : [])),
  };
}

/** True if the entry is about records of this resource. */
export function isMeant(value: JsonValue, { filter }: Pick<ChangeFeed, 'filter'>): boolean {
  return filter.every(({ field, in: values }) => {
    const found = fieldAt(value, field);
    if (found === undefined || found === null) return false;
    const text = typeof found === 'string' ? found : JSON.stringify(found);
    return values.some((one) => String(one) === text);
  });
}

/** `sent` is the entry's value as it came, which its record is selected from. */
function changeOf(
  { value, bytes, sent }: SourceRecord & { sent: JsonValue },
  { record, deleted }: ChangeFeed,
  { times, ...sight }: FedResource,
): Change {
  const tombstone = tombstoneOf(value, { deleted, times });
  if (tombstone !== null) return { gone: tombstone.at };
  const found = record === null ? null : selectRecord(bytes, sent, record);
  return found === null ? { named: true } : { record: asRecord(found, sight) };
}

function nameless(detail: string): SyncError {
  return new SyncError('bad_feed_entry', `An entry of the feed names no record: ${detail}`, {
    recovery: 'stop',
    hint: 'Set incremental.id in the profile to where an entry names the id of its record.',
  });
}

type FeedRequest = Pick<ChangeFeed, 'path' | 'method' | 'query' | 'headers' | 'body'>;

/** One answer of the feed behind a place; null if the service no longer knows that. Throws what the client throws. */
export async function askFeed(
  context: ResourceContext,
  feed: ChangeFeed,
  { cursor, page }: FeedPlace,
): Promise<ApiAnswer | null> {
  const from = page ?? cursor;
  const request = feed.url && from !== null ? followed(context, feed, from) : built(context, feed, { cursor, page });
  const isExpired = goneBy(from === null ? null : feed.expired);
  let isNothing = false;
  const isGone: typeof isExpired = (found) => {
    const expired = isExpired(found);
    isNothing = !expired && saysNothing(found, context.profile.empty, true);
    return expired || isNothing;
  };
  const answer = await ask(context, request, { isGone });
  if (answer.outcome === 'ok') return answer;
  return isNothing ? { ...answer, outcome: 'ok' } : null;
}

/** The answer that names the present end of the feed. */
export function askStart(context: ResourceContext, start: FeedRequest): Promise<ApiAnswer> {
  return ask(context, built(context, start, {}), {});
}

function ask(
  { client, meter, signal }: ResourceContext,
  request: BuiltRequest,
  known: Pick<ApiRequest, 'isGone'>,
): Promise<ApiAnswer> {
  return client.get({ ...request, ...known, lane: 'incremental', meter, signal }).catch((error: unknown) => {
    throw withEmptyHint(error);
  });
}

function built({ listing, profile }: ResourceContext, request: FeedRequest, values: TemplateValues): BuiltRequest {
  return singleRequest({ target: listing, templates: templatesOf(request, profile.path), values });
}

/** The address that the service named. */
function followed({ listing, profile }: ResourceContext, feed: ChangeFeed, stored: string): BuiltRequest {
  const url = urlAt(listing.baseUrl, positionFrom(stored, feed.query, {}) ?? stored);
  return requestAt({ target: listing, templates: { ...templatesOf(feed, profile.path), query: {} }, values: {} }, url);
}

function templatesOf({ path, ...request }: FeedRequest, otherwise: string) {
  return { ...request, path: path ?? otherwise };
}
