import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { DATABASES, type TestDatabase } from '../../support/databases.ts';
import { journey, type Journey } from '../../support/journey.ts';
import { asReader } from '../../support/postgres-clients.ts';

type Record_ = Record<string, unknown>;

const RELATIONS = {
  'analytics.content_id': 'content.id',
  'content.seo_image_id': 'images.id',
  'content_image_ids.value': 'images.id',
};
const UPDATED = '2026-01-02T00:00:00Z';

/** The ways in which a post names an image. */
const IMAGES = z.object({
  seo: z.object({ image_id: z.unknown().optional(), image: z.object({ id: z.unknown() }).nullish() }).nullish(),
  image_ids: z.array(z.unknown()).nullish(),
});

/** Odd ones among the others: without anything, with everything twice, and names that refer to nothing. */
function addOddOnes({ sandbox: { store } }: Journey): void {
  const put = (resource: 'content' | 'images' | 'analytics', id: string, fields: Record_): void =>
    store.put(resource, { id, updated_at: UPDATED, ...fields });
  put('content', 'bare', { title: 'nothing belongs to it' });
  put('content', 'full', {
    tags: ['b', 'a, with a comma', null, 'b', ''],
    image_ids: ['img_000000000', 'img_000000000'],
    seo: { image_id: 'img_000000000' },
  });
  put('content', 'huge', { image_ids: ['img_000000001', 'gone'], authors: [{ handle: 'z' }, { handle: 'a' }] });
  put('analytics', 'a1', { content_id: 'full', views: 9_007_199_254_740_991, seconds: 0.1, date: '2025-01-31' });
  put('analytics', 'a2', { content_id: 'full', views: 2, seconds: 0.2, date: '2024-12-31' });
  put('analytics', 'a3', { content_id: 'huge', seconds: 1e308 });
  put('analytics', 'a4', { content_id: 'huge', seconds: 1e308 });
  put('analytics', 'a5', { content_id: 'nowhere', views: 1_000 });
  put('analytics', 'a6', { content_id: null, views: 1_000 });
}

function recordsOf({ sandbox: { store } }: Journey, resource: 'content' | 'images' | 'analytics'): Record_[] {
  return [...store.list(resource)].map(({ text }) => z.record(z.string(), z.unknown()).parse(JSON.parse(text)));
}

/** As a view joins them. */
function textsOf(list: unknown): string | null {
  const all = (Array.isArray(list) ? list : []).filter((each) => each !== null);
  return all.length === 0 ? null : all.join(', ');
}

async function ask(database: TestDatabase, address: string, query: string): Promise<Record_[]> {
  return database.name === 'sqlite'
    ? database.read(address, (db) => db.prepare<[], Record_>(query).all())
    : asReader(address, async (client) => (await client.query<Record_>(query)).rows);
}

async function copied(database: TestDatabase): Promise<Journey> {
  const blog = await journey({
    database,
    profile: { relations: RELATIONS },
    sandbox: { generate: { content: 40, images: 5, analytics: 90 } },
  });
  addOddOnes(blog);
  const { status } = await blog.run('backfill');
  expect(status).toBe('ok');
  return blog;
}

describe.for(DATABASES)('a summary on $name', (database) => {
  it('has one row per live record, with counts, sums and days of related rows', async () => {
    const blog = await copied(database);
    const days = database.name === 'sqlite' ? 'CAST($ AS TEXT)' : '$::text';
    const rows = await ask(
      database,
      blog.address,
      `SELECT id, tags, tags_count, authors_count, authors_handle, analytics_count, CAST(analytics_views_sum AS TEXT) AS views,
        analytics_seconds_sum AS seconds, ${days.replace('$', 'analytics_first_date')} AS first,
        ${days.replace('$', 'analytics_last_date')} AS last FROM content_summary ORDER BY id`,
    );
    const analytics = recordsOf(blog, 'analytics');
    const wanted = recordsOf(blog, 'content').map(({ id, tags, authors }) => {
      const own = analytics.filter(({ content_id }) => content_id === id);
      const dates = own.flatMap(({ date }) => (typeof date === 'string' ? [date] : [])).toSorted();
      const handles = Array.isArray(authors) ? authors.map(({ handle }: { handle?: unknown }) => handle) : [];
      const views = own.reduce((sum, each) => sum + BigInt(Number(each['views'] ?? 0)), 0n);
      const seconds = own.reduce((sum, each) => sum + Number(each['seconds'] ?? 0), 0);
      return {
        id,
        tags: textsOf(tags),
        tags_count: String(Array.isArray(tags) ? tags.length : 0),
        authors_count: String(handles.length),
        authors_handle: textsOf(handles),
        analytics_count: String(own.length),
        views: String(views),
        seconds: Number.isFinite(seconds) ? seconds.toFixed(6) : null,
        first: dates[0] ?? null,
        last: dates.at(-1) ?? null,
      };
    });
    const shown = rows.map(({ tags_count: tags, authors_count: authors, analytics_count: count, seconds, ...row }) =>
      Object.assign(row, {
        tags_count: String(tags),
        authors_count: String(authors),
        analytics_count: String(count),
        seconds: typeof seconds === 'number' ? seconds.toFixed(6) : null,
      }),
    );
    expect(shown).toEqual(wanted.toSorted((a, b) => (String(a.id) < String(b.id) ? -1 : 1)));
  });

  it('counts records that are referenced through a list once, without missing ones', async () => {
    const blog = await copied(database);
    const rows = await ask(
      database,
      blog.address,
      `SELECT id, images_count AS n, images_byte_size_sum AS bytes FROM content_summary ORDER BY id`,
    );
    const sizes = new Map(recordsOf(blog, 'images').map(({ id, byte_size }) => [id, Number(byte_size)]));
    const wanted = recordsOf(blog, 'content').map((record) => {
      const { seo, image_ids: list } = IMAGES.parse(record);
      const named = new Set([...(list ?? []), seo?.image_id, seo?.image?.id].filter((each) => sizes.has(each)));
      return [record['id'], named.size, [...named].reduce<number>((sum, each) => sum + (sizes.get(each) ?? 0), 0)];
    });
    expect(rows.map(({ id, n, bytes }) => [id, Number(n), Number(bytes)])).toEqual(
      wanted.toSorted(([a], [b]) => (String(a) < String(b) ? -1 : 1)),
    );
    const of = (id: string): unknown => wanted.find(([each]) => each === id);
    expect([of('bare'), of('full'), of('huge')]).toMatchObject([
      ['bare', 0, 0],
      ['full', 1, sizes.get('img_000000000')],
      ['huge', 1, sizes.get('img_000000001')],
    ]);
  });

  it('survives a sum that no column can hold', async () => {
    const blog = await journey({
      database,
      profile: { relations: RELATIONS },
      sandbox: { generate: { content: 2, images: 0, analytics: 0 } },
    });
    for (const id of ['1', '2']) {
      blog.sandbox.store.put(
        'analytics',
        `{"id":"${id}","content_id":"cnt_000000000","views":9223372036854775807,"updated_at":"${UPDATED}"}`,
      );
    }
    blog.sandbox.store.put(
      'analytics',
      `{"id":"3","content_id":"cnt_000000001","views":9007199254740993,"updated_at":"${UPDATED}"}`,
    );
    await blog.run('backfill');
    const rows = await ask(
      database,
      blog.address,
      'SELECT CAST(analytics_views_sum AS TEXT) AS views FROM content_summary ORDER BY id',
    );
    expect(rows).toEqual([{ views: null }, { views: '9007199254740993' }]);
  });

  it('still adds up the numbers of a field that has become a text', async () => {
    const blog = await copied(database);
    const total = async (): Promise<unknown> => {
      const query = `SELECT CAST(analytics_views_sum AS TEXT) AS views FROM content_summary WHERE id = 'full'`;
      return (await ask(database, blog.address, query))[0]?.['views'];
    };
    const before = await total();
    blog.sandbox.store.put('analytics', { id: 'a7', content_id: 'full', views: 'many', updated_at: UPDATED });
    await blog.run('backfill');
    expect(before).toBe('9007199254740993');
    expect(await total()).toBe(before);
  });

  it('keeps the names of fields that equal those of its computed columns', async () => {
    const blog = await journey({
      database,
      profile: { relations: RELATIONS },
      sandbox: { generate: { content: 0, images: 0, analytics: 1 } },
    });
    blog.sandbox.store.put('content', { id: 'x', tags: ['a'], tags_count: 'three', updated_at: UPDATED });
    await blog.run('backfill');
    const [row = {}] = await ask(database, blog.address, 'SELECT * FROM content_summary');
    expect(row).toMatchObject({ tags_count: 'three', tags: 'a' });
    expect(Number(row['computed_tags_count'])).toBe(1);
  });

  it('sums additive columns only, and shows names instead of keys in lists', async () => {
    const blog = await journey({
      database,
      profile: { relations: { ...RELATIONS, 'content_images.value': 'images.id' } },
      sandbox: { generate: { content: 0, images: 0, analytics: 0 } },
    });
    const { store } = blog.sandbox;
    store.put('images', { id: 1, name: 'red', width: 10, byte_size: 5, owner: 7, updated_at: UPDATED });
    store.put('images', { id: 2, width: 20, byte_size: 6, price: 3, ratio: 0.5, owner: 7, updated_at: UPDATED });
    store.put('content', { id: 7, images: [2, 1, 3], updated_at: UPDATED });
    const fields = { views: 4, author: 3, parent_id: 9, year: 2024, lat: 1.5, revenue: 2, seconds: 0.5 };
    store.put('analytics', { id: 'a', content_id: 7, ...fields, currency: 'EUR', updated_at: UPDATED });
    await blog.run('backfill');
    const [row = {}] = await ask(database, blog.address, 'SELECT * FROM content_summary');
    const sums = Object.entries(row).flatMap(([name, sum]) => (name.endsWith('_sum') ? [[name, Number(sum)]] : []));
    expect(Object.fromEntries(sums)).toEqual({ analytics_views_sum: 4, images_byte_size_sum: 11, images_price_sum: 3 });
    expect(row).toMatchObject({ images: '2, red, 3' });
    expect([row['images_count'], row['linked_images_count']].map(Number)).toEqual([3, 2]);
  });
});
