import type { ApiAnswer } from '../../http/client.ts';
import { SyncError } from '../../model/errors.ts';
import type { JsonValue } from '../../model/json.ts';
import { isExact } from '../../shape/json/exact-number.ts';
import { fieldAt } from '../../shape/records/field-at.ts';
import type { ChangeFeed } from '../../source/change-feed.ts';

/** Where a reading of the feed stands: its cursor, and the page behind it in a feed that has pages. */
export interface FeedPlace {
  cursor: string | null;
  page: string | null;
}

/** The part of an answer that says how the feed goes on. */
export type FeedAnswer = Pick<ApiAnswer, 'json' | 'headers'>;

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
  const named = feed.next === null ? lastOf(feed.last, entries) : read(feed.next);
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
export function placeAt(answer: FeedAnswer, place: string): string | null {
  return tokenOf(valueAt(answer, place));
}

function lastOf(last: string | null, entries: readonly JsonValue[]): string | null {
  const entry = entries.at(-1);
  return entry === undefined || last === null ? null : tokenOf(fieldAt(entry, last));
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
