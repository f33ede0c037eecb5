import type { Image, Post, Reading, Records } from './records.ts';
import type { Step } from './story.ts';

/** Marks all that drifts: rows of answers with it in them are none of the old ones. */
const MARK = 'drift';

/** A post with an image and a reading of its own, of a kind that changes no figure of the others. */
export function addDrifter({ content, images, analytics }: Records): void {
  const [post, image, reading] = [[...content.values()][0], [...images.values()][0], [...analytics.values()][0]];
  if (post === undefined || image === undefined || reading === undefined) return;
  content.set(MARK, { ...post, ...DRIFTER });
  images.set(MARK, { ...image, id: MARK, file_name: MARK });
  analytics.set(MARK, { ...reading, id: MARK, content_id: MARK, views: 0, referrer: MARK });
}

const DRIFTER = {
  id: MARK,
  slug: MARK,
  title: MARK,
  status: MARK,
  authors: [{ handle: MARK, position: 0 }],
  tags: [MARK],
  image_ids: [MARK],
  seo: { description: MARK, image: { id: MARK, caption: MARK } },
};

const LONG = '0.0000000001234567890123456789012345678901234567';

interface Drift {
  what: string;
  content?: object;
  images?: object;
  analytics?: object;
}

/** What the one record of each resource becomes, one after the other. */
const DRIFTS: readonly Drift[] = [
  { what: 'a list item becomes an object', content: { tags: [MARK, { name: MARK }], image_ids: [{ id: MARK }] } },
  {
    what: 'a decimal has 40 digits',
    content: { word_count: JSON.rawJSON(LONG), reading_minutes: JSON.rawJSON(LONG) },
    images: { byte_size: JSON.rawJSON(LONG) },
    analytics: { views: JSON.rawJSON(LONG), seconds: JSON.rawJSON(LONG) },
  },
  { what: 'a date becomes a time', analytics: { date: '2024-10-02T10:11:12.5Z' } },
  { what: 'a boolean becomes a word', content: { featured: `${MARK}: yes` }, images: { has_file: MARK } },
  {
    what: 'a new field',
    content: { subtitle: MARK, links: [{ url: MARK }], more: { deep: 1 } },
    analytics: { device: MARK },
  },
  {
    what: 'a renamed field',
    content: { title: undefined, headline: MARK, word_count: undefined, words: 7 },
    analytics: { views: undefined, page_views: 3 },
  },
  {
    what: 'a number and a time become words',
    content: { word_count: MARK, reading_minutes: MARK, published_at: MARK, created_at: MARK },
    analytics: { views: MARK, date: MARK, seconds: MARK },
  },
  {
    what: 'a text and a list become objects',
    content: { title: { en: MARK }, slug: { en: MARK }, image_ids: { first: MARK }, seo: MARK },
    analytics: { referrer: { name: MARK }, content_id: [MARK] },
  },
];

/** A sync behind each drift, one a day. */
export function driftSteps(): (Step & { what: string })[] {
  return DRIFTS.map(({ what, content, images, analytics }, at) => ({
    what,
    at: new Date(Date.UTC(2024, 11, 2 + at)).toISOString(),
    command: 'sync',
    resources: ['content', 'images', 'analytics'],
    happens: (records) => {
      const updated_at = new Date(Date.UTC(2024, 11, 2 + at) - 3_600_000).toISOString();
      change<Post>(records.content, { updated_at, ...content });
      if (images !== undefined) change<Image>(records.images, images);
      if (analytics !== undefined) change<Reading>(records.analytics, analytics);
    },
  }));
}

function change<T>(records: Map<string, T>, fields: object): void {
  const record = records.get(MARK);
  if (record !== undefined) records.set(MARK, { ...record, ...fields });
}
