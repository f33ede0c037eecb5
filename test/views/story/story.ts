import type { Post, Reading, Records, Resource } from './records.ts';
import { sourceRecords } from './records.ts';

/** What happens in the service, and the sync behind it. */
export interface Step {
  /** When the sync asks, UTC. Some are on another day in New York. */
  at: string;
  /** A backfill finds deletes. */
  command: 'backfill' | 'sync';
  resources: readonly Resource[];
  happens: (records: Records) => void;
}

const ALL: readonly Resource[] = ['content', 'images', 'analytics'];

export interface Story {
  /** What the service has before the first sync: the blog, with drafts, archived posts and odd ones. */
  records: Records;
  steps: Step[];
}

/** The story of the blog, or of one in so many of its posts and what belongs to them. */
export function blogStory(oneIn = 1): Story {
  const source = sourceRecords();
  const posts = source.content.filter((_, place) => place % oneIn === 0);
  const known = new Set(posts.map(({ id }) => id));
  const readings = source.analytics.filter(({ content_id }) => known.has(content_id));
  const first = [...posts.map(asAtFirst), ...oddPosts(posts)];
  const used = new Set(posts.flatMap(({ image_ids, seo }) => image_ids.concat(seo.image.id)));
  const images = source.images.filter(({ id }, place) => used.has(id) || place % oneIn === 0);
  const records = {
    content: new Map(first.map((post) => [post.id, post])),
    images: new Map(images.map((image) => [image.id, image])),
    analytics: new Map(readings.filter(({ date }) => date < '2024-11-01').map((row) => [row.id, row])),
  };
  return { records, steps: stepsOf(first, readings) };
}

/** In the listing, and nothing that can be copied: each is set aside. */
export const SET_ASIDE: readonly unknown[] = [
  { id: null, title: 'Without an id', updated_at: '2024-10-01T00:00:00Z' },
  { title: 'With no field for it', updated_at: '2024-10-01T00:00:00Z' },
  { id: { of: 'an object' }, title: 'With an object', updated_at: '2024-10-01T00:00:00Z' },
];

/** Every fortieth post is a draft, half of those with a day on which it was to be published; some are archived. */
function asAtFirst(post: Post, at: number, { length }: readonly Post[]): Post {
  const isLate = at >= length - 2;
  if (!isLate && at % 40 !== 7) return at % 97 === 11 ? { ...post, status: 'archived' } : post;
  const planned = at % 80 === 7 ? null : post.published_at;
  return { ...post, status: 'draft', published_at: planned, updated_at: '2024-10-30T09:00:00Z' };
}

function oddPosts([like]: readonly Post[]): Post[] {
  if (like === undefined) return [];
  const odd = (id: string, fields: Partial<Post>): Post => ({ ...like, id, slug: id, ...fields });
  const image = { id: 'img_gone', caption: null };
  return [
    odd('odd_nul', { title: 'Before\u0000behind', published_at: '2024-10-31T23:59:59.999Z' }),
    odd('odd_alone', { authors: [], tags: [], word_count: 100, published_at: '2024-10-01T00:00:00Z' }),
    odd('odd_images', { image_ids: ['img_gone', null], seo: { description: null, image }, word_count: null }),
    odd('odd_lists', { tags: [null, 'agile', 'agile'], authors: [...like.authors, ...like.authors] }),
  ];
}

/** All that happens, in order. Times of change are those of the hour before the sync. */
function stepsOf(first: readonly Post[], readings: readonly Reading[]): Step[] {
  const [one, other] = [first[20], first[110]].flatMap((post) => post ?? []);
  return [
    { at: '2024-11-01T03:30:00.000Z', command: 'backfill', resources: ALL, happens: () => undefined },
    { at: '2024-11-08T12:00:00.250Z', command: 'sync', resources: ['content'], happens: firstEdits },
    { at: '2024-11-15T23:59:59.000Z', command: 'sync', resources: ['content'], happens: secondEdits },
    { at: '2024-11-20T06:00:00.000Z', command: 'backfill', resources: ['content'], happens: firstDeletes },
    {
      at: '2024-11-25T04:59:30.000Z',
      command: 'sync',
      resources: ['content'],
      happens: (records) =>
        restores(
          records,
          [one, other].flatMap((post) => post ?? []),
        ),
    },
    {
      at: '2024-12-01T02:15:00.000Z',
      command: 'backfill',
      resources: ALL,
      happens: (records) => lastChanges(records, other, readings),
    },
  ];
}

/** Changes the posts that are chosen, by what they are and their place. */
function edit(
  { content }: Records,
  hour: string,
  isChosen: (post: Post, at: number) => boolean,
  change: (post: Post) => Partial<Post>,
): void {
  const chosen = [...content.values()].filter(isChosen);
  for (const post of chosen) content.set(post.id, { ...post, ...change(post), updated_at: `${hour}:30:00.5Z` });
}

/** Those that are drafts, `count` of them from the front. */
function firstDrafts({ content }: Records, count: number): (post: Post) => boolean {
  const drafts = new Set([...content.values()].filter(({ status }) => status === 'draft').slice(0, count));
  return (post) => drafts.has(post);
}

const rewritten = ({ title, body }: Post): Partial<Post> => ({ title: `${title} (again)`, body: `${body}\n\nMore.` });
const renamed =
  (from: string, to: string) =>
  ({ tags }: Post): Partial<Post> => ({ tags: tags.map((tag) => (tag === from ? to : tag)) });
const has = (tag: string) => (post: Post) => post.tags.includes(tag);
const at =
  (...places: number[]) =>
  (_: Post, place: number) =>
    places.includes(place);

function firstEdits(records: Records): void {
  const hour = '2024-11-08T11';
  const published_at = '2024-11-07T09:15:00Z';
  edit(records, hour, firstDrafts(records, 4), (post) => ({ ...rewritten(post), status: 'published', published_at }));
  edit(records, hour, at(20, 21, 22, 23, 200, 300), rewritten);
  edit(records, hour, has('design'), renamed('design', 'product design'));
  edit(records, hour, at(30, 31, 32, 33), ({ slug }) => ({ slug: `${slug}-new` }));
}

function secondEdits(records: Records): void {
  const hour = '2024-11-15T22';
  edit(records, hour, firstDrafts(records, 1), rewritten);
  edit(records, hour, at(20, 21, 40), rewritten);
  // Nothing but the time of change.
  edit(records, hour, at(50, 51), () => ({}));
  edit(records, hour, at(60), () => ({ status: 'draft' }));
  // One goes back to its old address, one goes on.
  edit(records, hour, at(30), ({ slug }) => ({ slug: slug.replace(/-new$/, '') }));
  edit(records, hour, at(31), ({ slug }) => ({ slug: `${slug}er` }));
}

function firstDeletes(records: Records): void {
  const posts = [...records.content.values()];
  const draft = posts.findLast(({ status }) => status === 'draft');
  const gone = posts.filter((post, place) => place % 90 === 20 || post === draft);
  for (const { id } of gone) records.content.delete(id);
  edit(records, '2024-11-20T05', at(70, 71), rewritten);
}

/** Some that were deleted come back, changed. */
function restores(records: Records, back: readonly Post[]): void {
  const hour = '2024-11-25T04';
  for (const post of back) records.content.set(post.id, post);
  edit(
    records,
    hour,
    ({ id }) => back.some((post) => post.id === id),
    ({ title }) => ({ title: `${title}, restored` }),
  );
  edit(records, hour, has('agile'), renamed('agile', 'agile methods'));
  edit(records, hour, firstDrafts(records, 3), () => ({ status: 'published', published_at: '2024-11-25T03:00:00Z' }));
}

/** One that came back goes again. */
function lastChanges(records: Records, again: Post | undefined, readings: readonly Reading[]): void {
  const { content, images, analytics } = records;
  const used = [...content.values()].flatMap(({ image_ids }) => image_ids.filter((id) => id !== null));
  for (const id of [again?.id ?? '', [...content.keys()][5] ?? '']) content.delete(id);
  for (const id of [used[3] ?? '', used[10] ?? '', [...images.keys()][0] ?? '']) images.delete(id);
  for (const row of readings) analytics.set(row.id, row);
  const [gone, less, unknown] = [...analytics.values()];
  if (gone === undefined || less === undefined || unknown === undefined) return;
  analytics.delete(gone.id);
  analytics.set(less.id, { ...less, views: null });
  analytics.set('unknown', { ...unknown, id: 'unknown', content_id: 'cnt_unknown', views: 1_000 });
}
