import type { Dialect } from './dialect.ts';
import type { Post } from './posts.ts';
import { tieRank } from '../world/oddities.ts';

type SortKey = readonly [number | string, number | string];

/** The order in which a listing shows its posts; `salt` tells the requests of an unstable order apart. */
export function compare(dialect: Dialect, salt: string | null): (a: Post, b: Post) => number {
  return (a, b) => compareKeys(dialect, sortKey(dialect, a, salt), sortKey(dialect, b, salt));
}

/** Where a post stands in the order, as a token that the service reads again. */
export function tokenOf(dialect: Dialect, post: Post): string {
  return Buffer.from(JSON.stringify(sortKey(dialect, post))).toString('base64');
}

/** The posts behind a token; null where it is none of this service's. */
export function behind(dialect: Dialect, posts: readonly Post[], token: string): readonly Post[] | null {
  const after = sortKeyIn(token);
  return after === null ? null : posts.filter((post) => compareKeys(dialect, sortKey(dialect, post), after) > 0);
}

function idNumber({ ids }: Dialect, { id }: Post): number | string {
  return ids === 'integers' ? Number(id) : id;
}

function sortKey(dialect: Dialect, post: Post, salt: string | null = null): SortKey {
  const { order, page, filter, odd } = dialect;
  const id = idNumber(dialect, post);
  const isById = page.isKeyset === true || odd.ties !== 'by_creation';
  const tie = salt !== null ? tieRank(post.id, salt) : isById ? id : post.serial;
  const keys = { id, updated: post.updatedAt ?? post.createdAt, title: post.title, initial: post.title.slice(0, 1) };
  return [keys[page.isKeyset === true ? 'id' : filter.isNewestFirst === true ? 'updated' : order.by], tie];
}

function compareKeys({ order, page, filter }: Dialect, [a, idOfA]: SortKey, [b, idOfB]: SortKey): number {
  const isDescending = page.isKeyset !== true && (filter.isNewestFirst === true || order.isDescending);
  const sign = isDescending ? -1 : 1;
  if (a !== b) return a < b ? -sign : sign;
  return idOfA === idOfB ? 0 : idOfA < idOfB ? -sign : sign;
}

function sortKeyIn(token: string): SortKey | null {
  try {
    const key: unknown = JSON.parse(Buffer.from(token, 'base64').toString());
    return Array.isArray(key) && key.length === 2 ? [key[0], key[1]] : null;
  } catch {
    return null;
  }
}
