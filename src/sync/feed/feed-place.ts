import { sql, type CompiledQuery } from 'kysely';
import type { Page } from '../../extract/page.ts';
import { linkedPosition } from '../../extract/page-styles/position.ts';
import type { ApiAnswer } from '../../http/client.ts';
import { SyncError } from '../../model/errors.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { parseJson } from '../../shape/json/parse-json.ts';
import { canonicalHash } from '../../shape/records/fingerprint.ts';
import type { ChangeFeed } from '../../source/change-feed.ts';
import { readFeed, saveFeed } from '../../state/checkpoints.ts';
import type { FeedRow } from '../../warehouse/own-tables.ts';
import type { ResourceContext } from '../resource-context.ts';
import { storedPosition } from '../walk/stored-position.ts';
import { placeAt } from './feed-step.ts';

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
