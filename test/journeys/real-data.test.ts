import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { differences } from '../support/compare-copy.ts';
import { DATABASES, SQLITE } from '../support/databases.ts';
import { journey } from '../support/journey.ts';

/** A real blog with its images' facts and a made-up series of analytics; its README states the sums. */
const data = fileURLToPath(new URL('../../../shared/data/blog', import.meta.url));
const isHere = existsSync(data);
if (!isHere) console.log('skipped: the blog data is not in ../shared/data/blog beside this repository');

const DIALECTS = ['ietf', 'legacy', 'github', 'none'] as const;

/** Every page style, sorted and not in turn, as are the forms of rate headers. The first one on every database. */
const CASES = (['cursor', 'page', 'offset', 'link', 'next-url', 'cursor'] as const).flatMap((pagination, at) =>
  (at === 0 ? DATABASES : [SQLITE]).map((database) => ({
    pagination,
    database,
    sort: at % 2 === 0 ? ('updated' as const) : ('none' as const),
    rateHeaders: DIALECTS[at % DIALECTS.length] ?? 'ietf',
  })),
);

describe.skipIf(!isHere)('a real blog', () => {
  it.each(CASES)(
    'is copied whole with $pagination pages, sort $sort and $rateHeaders rate headers to $database.name',
    async ({ pagination, sort, rateHeaders, database }) => {
      const sandbox = { data, pagination, sort, rateHeaders, rate: 400, burst: 400 };
      const base = pagination === 'cursor' ? 'content-service' : `content-service-${pagination}`;
      // Pages of 97 records end in the middle of ties; the long series goes in large ones, to be quick.
      const resources = { content: { page: { size: 97 } }, analytics: { page: { size: 1_000 } } };
      const blog = await journey({ database, sandbox, base, profile: { resources } });
      const report = await blog.run('backfill');
      expect(report).toMatchObject({
        status: 'ok',
        resources: [{ inserted: 508 }, { inserted: 676 }, { inserted: 30_480 }],
      });
      await blog.read((db) => {
        expect(sumsIn(db)).toEqual(SUMS);
        expect(typesIn(db)).toEqual(TYPES);
        expect(differences(db, blog.sandbox.store, { resources: ['content', 'images'] })).toEqual([]);
      });
    },
  );

  it.each(DATABASES)('keeps every moment and every other value of the source text on $name', async (database) => {
    const resources = { analytics: { page: { size: 1_000 } } };
    const blog = await journey({ database, sandbox: { data }, profile: { resources } });
    await blog.run('backfill');
    await blog.read((db) => {
      expect(differences(db, blog.sandbox.store)).toEqual([]);
      const rows = db
        .prepare<[], Record<string, string | null>>('SELECT id, created_at, updated_at, published_at FROM content')
        .all();
      expect(rows).toHaveLength(508);
      const source = new Map(sourceRecords('content').map((record) => [record['id'], record]));
      for (const row of rows) {
        for (const name of ['created_at', 'updated_at', 'published_at']) {
          expect([row['id'], name, instant(row[name])]).toEqual([
            row['id'],
            name,
            Date.parse(String(source.get(row['id'])?.[name])),
          ]);
        }
      }
    });
  });
});

const SUMS = {
  content: 508,
  images: 676,
  analytics: 30_480,
  content_tags: 1_715,
  content_authors: 921,
  content_image_ids: 398,
  words: 517_341,
  views: 332_447,
  no_referrer: 6_086,
  bytes: 164_968_904,
};

const QUERIES: Readonly<Record<keyof typeof SUMS, string>> = {
  content: 'SELECT count(*) FROM content',
  images: 'SELECT count(*) FROM images',
  analytics: 'SELECT count(*) FROM analytics',
  content_tags: 'SELECT count(*) FROM content_tags',
  content_authors: 'SELECT count(*) FROM content_authors',
  content_image_ids: 'SELECT count(*) FROM content_image_ids',
  words: 'SELECT sum(word_count) FROM content',
  views: 'SELECT sum(views) FROM analytics',
  no_referrer: 'SELECT count(*) FROM analytics WHERE referrer IS NULL',
  bytes: 'SELECT sum(byte_size) FROM images',
};

function sumsIn(db: Database.Database): Record<string, unknown> {
  return Object.fromEntries(Object.entries(QUERIES).map(([name, text]) => [name, db.prepare(text).pluck().get()]));
}

/** Declared types, as BI clients see them. The first page of `reading_minutes` may look like whole numbers. */
const TYPES = {
  'content.id': 'TEXT',
  'content.reading_minutes': 'DOUBLE',
  'content.word_count': 'BIGINT',
  'content.published_at': 'TIMESTAMP',
  'content_tags.position': 'BIGINT',
  'images.byte_size': 'BIGINT',
  'analytics.date': 'DATE',
  'analytics.views': 'BIGINT',
};

function typesIn(db: Database.Database): Record<string, unknown> {
  const type = db.prepare('SELECT type FROM pragma_table_info(?) WHERE name = ?').pluck();
  return Object.fromEntries(Object.keys(TYPES).map((column) => [column, type.get(...column.split('.'))]));
}

function sourceRecords(resource: string): Record<string, unknown>[] {
  return readFileSync(`${data}/${resource}.ndjson`, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
}

function instant(text: string | null | undefined): number {
  return Date.parse(`${text?.replace(' ', 'T')}Z`);
}
