import type { Reading } from '../story/records.ts';
import type { Expected } from './copy.ts';
import { orNull } from './of-posts.ts';
import { groups, moment, sum, type Row } from './rows.ts';

function readingsOf({ live }: Expected): ReadonlyMap<string, readonly Reading[]> {
  return new Map(groups(live.analytics.values(), ({ content_id }) => content_id));
}

const viewsIn = (readings: readonly Reading[] = []): number => sum(readings.map(({ views }) => views));

/** Views of the live posts, shared among what is in one of their lists. */
function sharedBy(expected: Expected, name: string, listOf: (id: string) => readonly (string | null)[]): Row[] {
  const readings = readingsOf(expected);
  const shares = [...expected.live.content.keys()].flatMap((id) =>
    orNull(listOf(id)).map((key, _, { length }) => ({ id, key, views: viewsIn(readings.get(id)) / length })),
  );
  return groups(shares, ({ key }) => key).map(([key, each]) => ({
    [name]: key,
    posts: new Set(each.map(({ id }) => id)).size,
    views: sum(each.map(({ views }) => views)),
  }));
}

export function viewsByAuthor(expected: Expected): Row[] {
  const { content } = expected.live;
  return sharedBy(expected, 'author', (id) => content.get(id)?.authors.map(({ handle }) => handle) ?? []);
}

export function viewsByTag(expected: Expected): Row[] {
  return sharedBy(expected, 'tag', (id) => expected.live.content.get(id)?.tags ?? []);
}

export function topOf30Days(expected: Expected): Row[] {
  const { content, analytics } = expected.live;
  const newest =
    [...analytics.values()]
      .map(({ date }) => date)
      .toSorted()
      .at(-1) ?? '';
  const first = new Date(Date.parse(newest) - 29 * 86_400_000).toISOString().slice(0, 10);
  const rows = [...readingsOf(expected)].flatMap(([id, readings]): [string, string, number][] => {
    const recent = readings.filter(({ date }) => date >= first);
    const post = content.get(id);
    return post === undefined || recent.length === 0 ? [] : [[id, post.title.replaceAll('\0', '␀'), viewsIn(recent)]];
  });
  const best = rows.toSorted(([a, , first_], [b, , second]) => second - first_ || (a < b ? -1 : 1)).slice(0, 10);
  return best.map(([id, title, views]) => ({ id, title, views }));
}

export function byReferrer({ live }: Expected): Row[] {
  const all = [...live.analytics.values()];
  return groups(all, ({ referrer }) => referrer ?? '(none)').map(([referrer, readings]) => ({
    referrer,
    views: viewsIn(readings),
    percent: (100 * viewsIn(readings)) / viewsIn(all),
  }));
}

export function longReads(expected: Expected): Row[] {
  const readings = readingsOf(expected);
  return [...expected.live.content.values()]
    .filter(({ status, reading_minutes }) => status === 'published' && (reading_minutes ?? 0) > 10)
    .map(({ id, slug, reading_minutes }) => ({ id, slug, reading_minutes, views: viewsIn(readings.get(id)) }));
}

export function stale(expected: Expected): Row[] {
  const readings = readingsOf(expected);
  return [...expected.live.content.values()]
    .filter(({ status, updated_at }) => status === 'published' && Date.parse(updated_at) < Date.UTC(2020, 11, 1))
    .map(({ id, slug, updated_at }) => ({
      id,
      slug,
      updated_at: moment(updated_at),
      views: viewsIn(readings.get(id)),
    }));
}

/** Those that are still deleted, with what they were called last. */
export function deletedWithViews(expected: Expected): Row[] {
  const readings = readingsOf(expected);
  return expected.deletes
    .filter(({ resource, restored_at }) => resource === 'content' && restored_at === null)
    .map(({ id, deleted_at }) => {
      const last = expected.versions.findLast((version) => version.id === id && version.to === deleted_at);
      return { id, slug: last?.post?.slug, deleted_at, views: viewsIn(readings.get(id)) };
    });
}
