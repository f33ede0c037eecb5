import type { Post } from '../story/records.ts';
import type { Expected } from './copy.ts';
import { groups, moment, monthOf, sum, type Row } from './rows.ts';

const postsIn = ({ live }: Expected): Post[] => [...live.content.values()];
const isPublished = ({ status }: Post): boolean => status === 'published';

/** Published posts that have a time, with it. */
function dated(expected: Expected): { post: Post; at: string }[] {
  const posts = postsIn(expected).filter(isPublished);
  return posts.flatMap((post) => (post.published_at === null ? [] : [{ post, at: post.published_at }]));
}

export function postsPerMonth(expected: Expected): Row[] {
  return groups(dated(expected), ({ at }) => monthOf(at)).map(([month, { length }]) => ({ month, posts: length }));
}

export function monthOverMonth(expected: Expected): Row[] {
  const posts = new Map(postsPerMonth(expected).map((row) => [row['month'], Number(row['posts'])]));
  const months = ['2023', '2024'].flatMap((year) =>
    Array.from({ length: 12 }, (_, at) => `${year}-${String(at + 1).padStart(2, '0')}`),
  );
  return months.map((month, at) => {
    const count = posts.get(month) ?? 0;
    return { month, posts: count, change: at === 0 ? null : count - (posts.get(months[at - 1]) ?? 0) };
  });
}

export function byWeekdayAndHour(expected: Expected): Row[] {
  const places = dated(expected).map(({ at }) => new Date(at));
  const keyed = groups(places, (at) => `${at.getUTCDay() === 0 ? 7 : at.getUTCDay()} ${at.getUTCHours()}`);
  return keyed.map(([key, { length }]) => {
    const [weekday, hour] = key.split(' ').map(Number);
    return { weekday, hour, posts: length };
  });
}

export function imageWeight(expected: Expected): Row[] {
  const { images } = expected.live;
  return postsIn(expected).map(({ id, slug, image_ids, seo }) => {
    const used = [...new Set([...image_ids, seo.image.id])].filter((each) => each !== null);
    const found = used.flatMap((each) => images.get(each) ?? []);
    const bytes = sum(found.map(({ byte_size }) => byte_size));
    return { id, slug, images: found.length, bytes };
  });
}

export function unusedImages({ live }: Expected): Row[] {
  const used = new Set([...live.content.values()].flatMap(({ image_ids, seo }) => image_ids.concat(seo.image.id)));
  return [...live.images.values()]
    .filter(({ id }) => !used.has(id))
    .map(({ id, file_name, byte_size }) => ({ id, file_name, byte_size }));
}

export function wordsPerAuthor(expected: Expected): Row[] {
  const shares = postsIn(expected).flatMap(({ id, authors, word_count }) =>
    orNull(authors.map(({ handle }) => handle)).map((author, _, { length }) => ({
      id,
      author,
      words: word_count === null ? null : word_count / length,
    })),
  );
  return groups(shares, ({ author }) => author).map(([author, each]) => ({
    author,
    posts: new Set(each.map(({ id }) => id)).size,
    words: sumOrNull(each.map(({ words }) => words)),
  }));
}

/** A list without elements counts as one that is not known. */
export function orNull<T>(list: readonly T[]): (T | null)[] {
  return list.length === 0 ? [null] : [...list];
}

function sumOrNull(numbers: readonly (number | null)[]): number | null {
  return numbers.every((each) => each === null) ? null : sum(numbers);
}

export function freshness({ live, counts }: Expected): Row[] {
  return Object.entries(live).map(([resource, records]: [string, ReadonlyMap<string, Row>]) => {
    const changed = [...records.values()].flatMap(({ updated_at }) => moment(asText(updated_at)) ?? []);
    const { at = '', deleted = 0, altered = 0 } = counts[resource] ?? {};
    return {
      resource,
      last_success_at: at,
      newest_record_at: changed.toSorted().at(-1) ?? null,
      rows_live: records.size,
      rows_deleted: deleted,
      rows_altered: altered,
      open_rejects: resource === 'content' ? 3 : 0,
    };
  });
}

function asText(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}
