import { existsSync, readFileSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type Database from 'better-sqlite3';
import { expect } from 'vitest';
import { differences } from '../support/compare-copy.ts';
import { SQLITE, type TestDatabase } from '../support/databases.ts';
import { journey } from '../support/journey.ts';
import { tempFolder } from '../support/temp-warehouse.ts';

/** A real blog with its images' facts and a made-up series of analytics; its README states the sums. */
const data = fileURLToPath(new URL('../../../shared/data/blog', import.meta.url));
export const isHere = existsSync(data);
if (!isHere) console.log('skipped: the blog data is not in ../shared/data/blog beside this repository');

const DIALECTS = ['ietf', 'legacy', 'github', 'none'] as const;

/** Every page style, sorted and not in turn, as are the forms of rate headers. */
export const STYLES = (['cursor', 'page', 'offset', 'link', 'next-url', 'cursor'] as const).map((pagination, at) => ({
  pagination,
  sort: at % 2 === 0 ? ('updated' as const) : ('none' as const),
  rateHeaders: DIALECTS[at % DIALECTS.length] ?? 'ietf',
}));

/** Copies the blog's small resources, and the long series as well if `isWhole`; all its sums, types and moments must hold. */
export async function copyBlog(
  { pagination, sort, rateHeaders }: (typeof STYLES)[number],
  { database = SQLITE, isWhole = true }: { database?: TestDatabase; isWhole?: boolean } = {},
): Promise<void> {
  const sandbox = { data: served(isWhole), pagination, sort, rateHeaders, rate: 400, burst: 400 };
  const base = pagination === 'cursor' ? 'content-service' : `content-service-${pagination}`;
  // Pages of 97 records end in the middle of ties; the long series goes in large ones, to be quick.
  const pages = { content: { page: { size: 97 } }, analytics: { page: { size: 1_000 } } };
  const blog = await journey({ database, sandbox, base, profile: { resources: pages } });
  const resources = asked(isWhole);
  const report = await blog.run('backfill', { resources });
  const inserted = [508, 676, 30_480].slice(0, resources.length).map((count) => ({ inserted: count }));
  expect(report).toMatchObject({ status: 'ok', resources: inserted });
  await blog.read((db) => {
    expectSums(db, isWhole);
    expectMoments(db);
    expect(differences(db, blog.sandbox.store, { resources })).toEqual([]);
  });
}

/** Every moment is that of the source text. */
function expectMoments(db: Database.Database): void {
  const rows = db
    .prepare<[], Record<string, string | null>>('SELECT id, created_at, updated_at, published_at FROM content')
    .all();
  const source = new Map(sourceRecords('content').map((record) => [record['id'], record]));
  for (const { id, ...times } of rows) {
    for (const [name, time] of Object.entries(times)) {
      expect([id, name, instant(time)]).toEqual([id, name, Date.parse(String(source.get(id)?.[name]))]);
    }
  }
}

/** A folder of the resources that are asked for: the long series takes a while to read. */
function served(isWhole: boolean): string {
  if (isWhole) return data;
  const folder = tempFolder();
  for (const file of asked(isWhole).map((resource) => `${resource}.ndjson`)) {
    symlinkSync(path.join(data, file), path.join(folder, file));
  }
  return folder;
}

function asked(isWhole: boolean): string[] {
  return ['content', 'images', ...(isWhole ? ['analytics'] : [])];
}

/** All sums and types of the blog's copy; without those of analytics unless `isWhole`. */
function expectSums(db: Database.Database, isWhole = true): void {
  const isAsked = ([name]: [string, unknown]): boolean => isWhole || !/^(analytics\b|views$|no_referrer$)/.test(name);
  expect(sumsIn(db, isAsked)).toEqual(Object.fromEntries(Object.entries(SUMS).filter(isAsked)));
  expect(typesIn(db, isAsked)).toEqual(Object.fromEntries(Object.entries(TYPES).filter(isAsked)));
}

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

type IsAsked = (entry: [string, unknown]) => boolean;

function sumsIn(db: Database.Database, isAsked: IsAsked): Record<string, unknown> {
  const entries = Object.entries(QUERIES).filter(isAsked);
  return Object.fromEntries(entries.map(([name, text]) => [name, db.prepare(text).pluck().get()]));
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

function typesIn(db: Database.Database, isAsked: IsAsked): Record<string, unknown> {
  const type = db.prepare('SELECT type FROM pragma_table_info(?) WHERE name = ?').pluck();
  return Object.fromEntries(
    Object.entries(TYPES)
      .filter(isAsked)
      .map(([column]) => [column, type.get(...column.split('.'))]),
  );
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
