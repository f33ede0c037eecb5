import type { ChangeFeed } from './change-feed.ts';
import type { DeleteFeed } from './delete-feed.ts';

/** The fields of a resource that name its key, and those of its feeds. */
interface Keyed {
  id: string | readonly string[];
  delete_feed: Pick<DeleteFeed, 'id'> | null;
  feed: Pick<ChangeFeed, 'id'> | null;
}

/**
 * Why the entries of a feed name no row of the resource: their id has fewer or more parts than the key, of which the field
 * of a partition is one. Null if it has as many, or there is no feed.
 */
export function feedKeyFault({ id, delete_feed, feed }: Keyed): { path: string[]; message: string } | null {
  const named: readonly [string[], string | readonly string[] | null][] = [
    [['delete_feed', 'id'], delete_feed?.id ?? null],
    [['incremental', 'id'], feed?.id ?? null],
  ];
  const found = named.find(([, parts]) => parts !== null && !isAlike(parts, id));
  if (found === undefined) return null;
  const wanted =
    typeof id === 'string' ? 'one field' : `a list of ${id.length} fields, where an entry names ${id.join(' and ')}`;
  return { path: found[0], message: `expected ${wanted}, because the key of a row is made of them` };
}

function isAlike(parts: string | readonly string[], id: string | readonly string[]): boolean {
  if (typeof parts === 'string' || typeof id === 'string') return typeof parts === typeof id;
  return parts.length === id.length;
}
