import type { CompiledQuery, Kysely } from 'kysely';
import type { FeedRow, OwnTables } from '../warehouse/own-tables.ts';

/** How far a feed has been read; null if it never was, or was declared otherwise then. */
export async function readFeed(
  own: Kysely<OwnTables>,
  { resource, feed, fingerprint }: Pick<FeedRow, 'resource' | 'feed' | 'fingerprint'>,
): Promise<FeedRow | null> {
  const row = await own
    .selectFrom('_sync_feeds')
    .selectAll()
    .where('resource', '=', resource)
    .where('feed', '=', feed)
    .executeTakeFirst();
  return row === undefined || row.fingerprint !== fingerprint ? null : row;
}

/** The statement that stores it; belongs into the transaction of what it speaks of. */
export function saveFeed(own: Kysely<OwnTables>, row: FeedRow): CompiledQuery {
  const { resource: _, feed: __, ...values } = row;
  return own
    .insertInto('_sync_feeds')
    .values(row)
    .onConflict((conflict) => conflict.columns(['resource', 'feed']).doUpdateSet(values))
    .compile();
}

export function forgetFeeds(own: Kysely<OwnTables>, resource: string): CompiledQuery {
  return own.deleteFrom('_sync_feeds').where('resource', '=', resource).compile();
}
