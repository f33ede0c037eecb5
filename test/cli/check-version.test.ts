import { createServer } from 'node:http';
import { describe, expect, it, onTestFinished } from 'vitest';
import { checkCommand } from '../../src/cli/check.ts';
import { portOf } from '../faults/port-of.ts';
import { journey } from '../support/journey.ts';
import { runInProcess } from './in-process.ts';

type Post = Record<string, unknown>;

const POSTS: readonly Post[] = Array.from({ length: 30 }, (_, at) => ({
  id: `p${at + 100}`,
  title: `Post ${at}`,
  views: at,
  author: { name: 'Ada', email: 'ada@example.test' },
  tags: ['a', 'b'],
  updated_at: '2026-03-01T12:00:00Z',
}));

interface Version {
  posts: readonly Post[];
  total?: number;
}

/** A service whose versions are told apart by `name`; an unknown one is refused with 404. Keeps what was asked of it. */
async function versionedService(versions: Readonly<Record<string, Version>>, nameOf: (asked: Asked) => string | null) {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://x');
    const name = nameOf({ url, header: (header) => String(request.headers[header] ?? '') }) ?? '';
    asked.push(`${name} ${url.pathname}`);
    const version = Object.hasOwn(versions, name) ? versions[name] : undefined;
    const [, id] = /\/posts\/(.+)$/.exec(url.pathname) ?? [];
    const posts = version?.posts ?? [];
    const page = Number(url.searchParams.get('page') ?? 1);
    const record = posts.find((post) => post['id'] === id);
    const listed = { data: posts.slice((page - 1) * 10, page * 10), total: version?.total ?? posts.length };
    const body = id === undefined ? listed : record;
    response.writeHead(version === undefined || body === undefined ? 404 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(body ?? { message: 'not found' }));
  });
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${await portOf(server)}`, asked };
}

interface Asked {
  url: URL;
  header: (name: string) => string;
}

const byHeader = ({ header }: Asked): string | null => header('accept-version');
const byQuery = ({ url }: Asked): string | null => url.searchParams.get('api version');
const byPrefix = ({ url }: Asked): string | null => /^\/(\w+)\/posts/.exec(url.pathname)?.[1] ?? null;

async function compare(
  other: Version | null,
  { version = 'v2', profile = {}, nameOf = byPrefix, args = [] as string[] } = {},
) {
  const service = await versionedService({ v1: { posts: POSTS }, ...(other === null ? {} : { v2: other }) }, nameOf);
  const page = { style: 'page', page_param: 'page', size: 10, size_param: 'limit', total: 'total' };
  const posts = { path: '/posts', page, item: '/posts/{id}', item_record: '', incremental: null };
  const stage = await journey({
    isNew: true,
    source: { base_url: service.url },
    profile: { resources: { content: null, images: null, analytics: null, posts }, ...profile },
  });
  const called = ['--api-version', version, ...args, '--config', stage.config];
  return { ...(await runInProcess(checkCommand, called, stage.folder)), service, stage };
}

const renamed = POSTS.map(({ title, views, ...post }) => ({ ...post, name: title, views: String(views), seo: null }));

describe('content-sync check --api-version', () => {
  it('ends with 0 where nothing differs, and asks both versions', async () => {
    const { code, stdout, service } = await compare({ posts: POSTS });
    expect([code, stdout]).toEqual([
      0,
      expect.stringContaining('ok    posts fields: the same, compared by 20 records'),
    ]);
    expect(stdout).toContain('ok    posts records: all 20 of the first pages are listed');
    expect(stdout).toContain('ok    posts total: 30');
    expect(service.asked).toContain('v1 /v1/posts');
    expect(service.asked).toContain('v2 /v2/posts');
  });

  it('copies nothing', async () => {
    const { stage } = await compare({ posts: POSTS });
    const tables = await stage.read((db) => db.prepare('SELECT name FROM sqlite_master').all());
    expect(tables).toEqual([]);
  });

  it.each<[string, Version, number, string[]]>([
    [
      'fields that are gone, new and of another type',
      { posts: renamed },
      1,
      [
        'FAIL  posts fields gone: title (compared by 20 records)',
        'FAIL  posts types changed: views: text, was number (',
        'ok    posts new fields: name, seo (',
      ],
    ],
    [
      'the outermost of what is gone',
      { posts: POSTS.map(({ author, ...post }) => ({ ...post, by: author })) },
      1,
      ['posts fields gone: author (', 'posts new fields: by ('],
    ],
    [
      'fields that are null',
      { posts: POSTS.map((post) => ({ ...post, title: null })) },
      1,
      ['FAIL  posts fields that are null now: title ('],
    ],
    ['new fields alone', { posts: POSTS.map((post) => ({ ...post, x: 1 })) }, 0, ['ok    posts new fields: x (']],
    [
      'records that are not there',
      { posts: POSTS.filter((_, at) => at !== 3 && at !== 4) },
      1,
      [
        'FAIL  posts records: 2 of 20 records of the first pages are not listed',
        '2 of 2 are not there when read alone: p103, p104',
        'total: 28, was 30',
      ],
    ],
    [
      'another order, which breaks nothing',
      { posts: POSTS.toReversed() },
      0,
      [
        'warn  posts records: 10 of 20 records of the first pages are not listed on its first pages; the 5 that were read alone are there',
      ],
    ],
    ['more records', { posts: POSTS, total: 31 }, 0, ['warn  posts total: 31, was 30']],
    [
      'another id',
      { posts: POSTS.map(({ id, ...post }) => ({ ...post, uuid: id })) },
      1,
      ['FAIL  posts id: no field id', 'FAIL  posts fields gone: id'],
    ],
  ])('tells %s', async (_, other, code, told) => {
    const ended = await compare(other);
    for (const text of told) expect(ended.stdout).toContain(text);
    expect([ended.code, ended.stderr]).toEqual([code, '']);
  });

  it('fails where the other version is not there', async () => {
    const { code, stdout } = await compare(null);
    expect([code, stdout]).toEqual([
      1,
      expect.stringMatching(/FAIL {2}posts listing: GET \S+\/v2\/posts\S* answered 404/),
    ]);
  });

  it('asks by the header that the profile declares', async () => {
    const version = { header: { name: 'Accept-Version', value: 'v1' } };
    const { code, stdout, service } = await compare(
      { posts: renamed },
      { profile: { version_prefix: '', version }, nameOf: byHeader },
    );
    expect([code, stdout]).toEqual([1, expect.stringContaining('posts fields gone: title')]);
    expect(new Set(service.asked.map((text) => text.replace(/p\d+$/, 'p')))).toContain('v2 /posts');
  });

  it('asks by the query parameter that the profile declares', async () => {
    const version = { query: { 'api version': 'v1' } };
    const { code } = await compare({ posts: POSTS }, { profile: { version_prefix: '', version }, nameOf: byQuery });
    expect(code).toBe(0);
  });

  it('prints the differences as JSON', async () => {
    const { stdout } = await compare({ posts: renamed }, { args: ['--json'] });
    expect(JSON.parse(stdout)).toMatchObject({
      source: 'blog',
      version: '/v2',
      compared_with: '/v1',
      resources: [
        { resource: 'posts', findings: expect.arrayContaining([expect.objectContaining({ status: 'fail' })]) },
      ],
    });
  });

  it('is refused where the profile names no version', async () => {
    await expect(compare({ posts: POSTS }, { profile: { version_prefix: '' } })).rejects.toThrow(
      'cannot ask for the version "v2"',
    );
  });
});
