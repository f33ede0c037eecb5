import { hash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { Page } from '../../src/pagination/page.ts';
import { type Reply, startListing } from '../pagination/listing-server.ts';
import { eitherDatabase, type TestDatabase } from '../support/databases.ts';
import { journey, type Journey, STOPPED } from '../support/journey.ts';
import { sampled } from '../support/length.ts';

type Doc = Record<string, unknown>;

const SIZE = 2;
const MOMENT = (minute: number): string => `2026-11-20T10:${String(minute).padStart(2, '0')}:00Z`;

/** A cursor in which no number is counted on. */
function markOf(id: unknown): string {
  return hash('sha1', String(id), 'hex');
}

/** One page of these records, of which some hide another one that only the total counts, by cursor or by page number. */
function listed(docs: readonly Doc[], { searchParams }: URL): Reply {
  const since = searchParams.get('since') ?? '';
  const found = docs.filter((doc) => String(doc['updated_at']) >= since);
  const page = searchParams.get('page');
  const mark = searchParams.get('cursor');
  const from = page === null ? found.findIndex(({ id }) => markOf(id) === mark) + 1 : (Number(page) - 1) * SIZE;
  const data = found.slice(from, from + SIZE);
  const next = from + SIZE < found.length ? markOf(data.at(-1)?.['id']) : null;
  const hidden = found.filter((doc) => doc['hides'] === true).length;
  return { body: { data, total: found.length + hidden, next_cursor: next } };
}

/** Those of a post, which `field` names. */
function byPost(docs: readonly Doc[], url: URL, field: string): Reply {
  return listed(
    docs.filter((doc) => doc[field] === url.searchParams.get('post')),
    url,
  );
}

function threeOf(post: string): Doc[] {
  return [1, 2, 3].map((n) => ({ id: `${post}${n}`, title: `${post} ${n}` }));
}

function alone(doc: Doc | undefined): Reply {
  return doc === undefined ? { status: 404, body: {} } : { body: doc };
}

const STYLES = {
  cursor: { style: 'cursor', size: SIZE },
  numbered: { style: 'page', size: SIZE, total: 'total' },
};

async function stageFor(database: TestDatabase, resources: Doc, respond: (url: URL) => Reply) {
  const service = await startListing(respond);
  const stage = await journey({
    database,
    profile: { version_prefix: '', resources: { content: null, images: null, analytics: null, ...resources } },
    source: { base_url: service.url.href, deletes: { max_part: 1 } },
  });
  return { stage, service };
}

function rows(stage: Journey, query: string): Promise<unknown[]> {
  return stage.read((db) =>
    db
      .prepare<[], Doc>(query)
      .all()
      .map((row) => Object.values(row).join(' ')),
  );
}

/** What a listing has, as `partition id title`, in order. */
function truthOf(docs: ReadonlyMap<string, readonly Doc[]>): string[] {
  const all = [...docs].flatMap(([value, each]) =>
    each.map(({ id, title }) => `${value} ${String(id)} ${String(title)}`),
  );
  return all.toSorted((a, b) => (a < b ? -1 : 1));
}

/** Ends a run after each of its pages but the last one, and takes it up again, until it ends by itself. Returns how often. */
async function inPieces(stage: Journey, command: 'backfill' | 'sync'): Promise<{ pieces: number; status: string }> {
  for (let pieces = 1; ; pieces += 1) {
    const stop = new AbortController();
    const watcher = {
      page: (_: string, { end, repeatedRecords }: Page) => end === null && repeatedRecords === 0 && stop.abort(STOPPED),
    };
    const { status } = await stage.run(command, { signal: stop.signal, watcher });
    if (status !== 'interrupted') return { pieces, status };
    if (pieces === 50) throw new Error('the run never ends');
  }
}

describe.for(eitherDatabase(import.meta.filename))('the same listing for several values on $name', (database) => {
  it.for([
    ['status 403', { status: 403, body: {} }],
    ['a login page', { headers: { 'content-type': 'text/html' }, body: '<html>log in</html>' }],
    ['something else than a list', { body: { data: 'no' } }],
  ] as const)('is read but for the one that is refused with %s', async ([, refusal]) => {
    const state: { isRefused: boolean; isFirstGone: boolean; hasNew: boolean } = {
      isRefused: false,
      isFirstGone: false,
      hasNew: false,
    };
    const posts = ['a', 'b', 'c'].map((id) => ({ id, updated_at: MOMENT(1) }));
    const { stage } = await stageFor(
      database,
      {
        posts: { path: '/posts', item: null, page: { style: 'cursor' } },
        notes: {
          path: '/posts/{partition}/notes',
          item: null,
          updated: null,
          page: { style: 'cursor' },
          partitions: { parent: 'posts', field: 'post_id' },
        },
      },
      ({ pathname }) => {
        const [, , post = ''] = pathname.split('/');
        if (post === '') return { body: { data: posts, next_cursor: null } };
        if (post === 'b' && state.isRefused) return { ...refusal };
        const added = post === 'c' && state.hasNew ? [{ id: 'new', title: 'new' }] : [];
        const found = threeOf(post).slice(post === 'a' && state.isFirstGone ? 1 : 0);
        return { body: { data: [...found, ...added], next_cursor: null } };
      },
    );
    stage.setSource({ deletes: { settle: '0s', max_part: 1 } });
    const live = () => rows(stage, 'SELECT id FROM notes WHERE _deleted_at IS NULL ORDER BY id');
    await stage.run('backfill');
    expect(await live()).toHaveLength(9);
    Object.assign(state, { isRefused: true, isFirstGone: true, hasNew: true });
    const { resources } = await stage.run('backfill');
    const report = resources.find(({ resource }) => resource === 'notes');
    expect(report).toMatchObject({ status: 'partial', deleted: 1, warnings: [{ code: 'listing_unread' }] });
    expect(report?.warnings?.[0]?.message).toContain('post_id b');
    const expected = [...threeOf('a').slice(1), ...threeOf('b'), ...threeOf('c')].map(({ id }) => id);
    expect(await live()).toEqual([...expected, 'new']);
    state.isRefused = false;
    expect((await stage.run('sync')).status).toBe('ok');
    expect(await live()).toEqual([...expected, 'new']);
  });

  it('fails with the error of the first if all of them are refused', async () => {
    const { stage } = await stageFor(
      database,
      {
        articles: {
          path: '/articles',
          item: null,
          incremental: null,
          page: { style: 'cursor' },
          partitions: { values: LOCALES, param: 'locale', field: 'locale' },
        },
      },
      () => ({ status: 403, body: {} }),
    );
    expect((await stage.run('backfill')).resources[0]).toMatchObject({
      status: 'failed',
      error: { code: 'forbidden' },
    });
  });

  const LOCALES = ['en', 'de', 'f/r'];

  async function locales(style: keyof typeof STYLES, fields: Doc = {}) {
    const docs = new Map<string, Doc[]>(LOCALES.map((locale) => [locale, []]));
    for (const [at, locale] of LOCALES.entries()) {
      for (let id = 1; id <= 3 + at; id += 1) {
        docs.get(locale)?.push({ id: `a${id}`, title: `${locale}-${id}`, updated_at: MOMENT(id) });
      }
    }
    const respond = (url: URL): Reply => {
      const mine = docs.get(url.searchParams.get('locale') ?? '');
      const id = url.pathname.split('/')[2];
      if (mine === undefined) return { status: 400, body: { error: 'no such locale' } };
      return id === undefined ? listed(mine, url) : alone(mine.find((doc) => doc['id'] === id));
    };
    const articles = {
      path: '/articles',
      page: STYLES[style],
      partitions: { values: LOCALES, param: 'locale', field: 'locale' },
      item: '/articles/{id}',
      incremental: { param: 'since', lookback: '1m' },
      ...fields,
    };
    return { docs, ...(await stageFor(database, { articles }, respond)) };
  }
  const LIVE = 'SELECT locale, id, title FROM articles WHERE _deleted_at IS NULL ORDER BY locale, id';

  it.each(['cursor', 'numbered'] as const)('is one walk, its value part of the key, %s', async (style) => {
    const { docs, stage } = await locales(style);
    expect((await stage.run('backfill')).resources[0]).toMatchObject({ status: 'ok', inserted: 12, rejected: 0 });
    expect(await rows(stage, LIVE)).toEqual(truthOf(docs));
    expect(await rows(stage, "SELECT _id FROM articles WHERE title = 'f/r-1'")).toEqual(['["f/r","a1"]']);
    expect(await rows(stage, `SELECT body FROM _sync_versions WHERE id = '["de","a2"]'`)).toEqual([
      `{"locale":"de","id":"a2","title":"de-2","updated_at":"${MOMENT(2)}"}`,
    ]);

    docs.get('de')?.push({ id: 'a9', title: 'new', updated_at: MOMENT(40) });
    Object.assign(docs.get('en')?.[0] ?? {}, { title: 'changed', updated_at: MOMENT(41) });
    docs.get('f/r')?.shift();
    expect((await stage.run('sync')).resources[0]).toMatchObject({
      status: 'ok',
      mode: 'incremental',
      inserted: 1,
      updated: 1,
    });
    expect((await stage.run('backfill')).resources[0]).toMatchObject({ status: 'ok', updated: 0, deleted: 1 });
    expect(await rows(stage, LIVE)).toEqual(truthOf(docs));
  });

  it.each(sampled(['cursor', 'numbered'] as const, 2, 1))(
    'goes on in the listing in which it was ended, %s',
    async (style) => {
      const { docs, stage, service } = await locales(style);
      const { pieces, status } = await inPieces(stage, 'backfill');
      expect(status).toBe('ok');
      expect(pieces).toBeGreaterThan(5);
      expect(await rows(stage, LIVE)).toEqual(truthOf(docs));
      const ofEnglish = service.requests.filter((request) => request.includes('locale=en'));
      expect(ofEnglish.length).toBeLessThan(8);
      docs.get('en')?.shift();
      await stage.write("UPDATE articles SET _synced_at = '2020-01-01 00:00:00.000'");
      expect(await inPieces(stage, 'backfill')).toMatchObject({ status: 'ok' });
      expect(await rows(stage, LIVE)).toEqual(truthOf(docs));
    },
  );

  it('is not proved if one of the listings is not, also after an interruption', async () => {
    const { docs, stage } = await locales('cursor', { page: { ...STYLES.cursor, total: 'total' } });
    docs.get('en')?.push({ id: 'a8', title: 'x', updated_at: MOMENT(3), hides: true });
    expect((await stage.run('backfill', { stopAfter: 2 })).status).toBe('interrupted');
    const { status, resources } = await stage.run('backfill');
    expect(status).toBe('partial');
    expect(JSON.stringify(resources[0]?.warnings)).toContain(
      'locale en: the scan saw 4 distinct records, but the service reports a total of 5',
    );
  });

  it('reads a single record in its own listing', async () => {
    const { docs, stage, service } = await locales('cursor', { incremental: null });
    await stage.run('backfill');
    docs.get('de')?.shift();
    expect((await stage.run('sync')).resources[0]).toMatchObject({ status: 'ok', deleted: 1 });
    expect(service.requests).toContain('/articles/a1?locale=de');
    expect(await rows(stage, LIVE)).toEqual(truthOf(docs));
    const { stdout, code } = await stage.command('check', 'articles');
    expect(stdout).toContain('records read alone at /articles/{id} are the listed ones');
    expect(code).not.toBe(1);
  });
});

describe.for(eitherDatabase(import.meta.filename))('a listing for each row of a parent on $name', (database) => {
  async function blog(fields: Doc = {}, style: keyof typeof STYLES = 'cursor', page: Doc = STYLES.cursor) {
    const posts = new Map<string, Doc>();
    const comments = new Map<string, Doc[]>();
    for (let id = 1; id <= 4; id += 1) {
      posts.set(`p${id}`, { id: `p${id}`, updated_at: MOMENT(id) });
      const own = Array.from({ length: id }, (_, at) => ({
        id: `c${at}`,
        title: `${id}.${at}`,
        updated_at: MOMENT(id),
      }));
      comments.set(`p${id}`, own);
    }
    const respond = (url: URL): Reply => {
      const [, , post, kind, comment] = url.pathname.split('/').map(decodeURIComponent);
      if (post === undefined) return listed([...posts.values()], url);
      if (kind === undefined) return alone(posts.get(post));
      const mine = comments.get(post);
      if (mine === undefined || kind !== 'comments') return { status: 404, body: {} };
      return comment === undefined ? listed(mine, url) : alone(mine.find((doc) => doc['id'] === comment));
    };
    const resources = {
      // Named before its parent, and yet behind it.
      comments: {
        path: '/posts/{partition}/comments',
        page: STYLES[style],
        partitions: { parent: 'posts', field: 'post_id' },
        item: '/posts/{partition}/comments/{id}',
        ...fields,
      },
      posts: {
        path: '/posts',
        page,
        item: '/posts/{id}',
        incremental: { param: 'since', lookback: '1m' },
      },
    };
    return { posts, comments, ...(await stageFor(database, resources, respond)) };
  }
  const LIVE = 'SELECT post_id, id, title FROM comments WHERE _deleted_at IS NULL ORDER BY post_id, id';

  it.each(['cursor', 'numbered'] as const)('is walked behind it, and is equal after changes, %s', async (style) => {
    const { posts, comments, stage } = await blog({}, style);
    const first = await stage.run('backfill');
    expect(first).toMatchObject({ status: 'ok', resources: [{ inserted: 10 }, { inserted: 4 }] });
    expect(await rows(stage, LIVE)).toEqual(truthOf(comments));

    posts.set('p0', { id: 'p0', updated_at: MOMENT(30) });
    comments.set('p0', [{ id: 'c0', title: 'of a new post', updated_at: MOMENT(30) }]);
    comments.get('p2')?.shift();
    comments.get('p3')?.push({ id: 'c9', title: 'new', updated_at: MOMENT(31) });
    posts.delete('p4');
    comments.delete('p4');
    await stage.write("UPDATE posts SET _synced_at = '2020-01-01 00:00:00.000'");
    await stage.write("UPDATE comments SET _synced_at = '2020-01-01 00:00:00.000'");
    const second = await stage.run('backfill');
    expect(second).toMatchObject({
      status: 'ok',
      resources: [
        { inserted: 2, deleted: 5 },
        { inserted: 1, deleted: 1 },
      ],
    });
    expect(await rows(stage, LIVE)).toEqual(truthOf(comments));
  });

  it('is empty where the service says that it is not there, unless it says so of all', async () => {
    const { comments, stage } = await blog();
    comments.delete('p4');
    comments.delete('p1');
    expect((await stage.run('backfill')).resources[0]).toMatchObject({ status: 'ok', inserted: 5 });
    expect(await rows(stage, LIVE)).toEqual(truthOf(comments));
    comments.clear();
    const { resources } = await stage.run('backfill');
    expect(resources[0]).toMatchObject({ status: 'partial' });
    expect(JSON.stringify(resources[0]?.warnings)).toContain('all 4 listings');
  });

  it('is asked for in a sync only if its parent has changed, where the profile says so', async () => {
    const partitions = { parent: 'posts', field: 'post_id', changed_only: true };
    const { posts, comments, stage, service } = await blog({ partitions });
    await stage.run('backfill');
    await stage.write("UPDATE posts SET _synced_at = '2020-01-01 00:00:00.000'");
    posts.set('p3', { id: 'p3', updated_at: MOMENT(50) });
    comments.get('p3')?.push({ id: 'c9', title: 'new', updated_at: MOMENT(50) });
    const asked = service.requests.length;
    const { status, resources } = await stage.run('sync');
    expect([status, resources[0]]).toMatchObject(['ok', { mode: 'incremental', inserted: 1 }]);
    const listings = service.requests.slice(asked).filter((request) => request.includes('/comments'));
    expect(listings.every((request) => request.startsWith('/posts/p3/comments'))).toBe(true);
    expect(listings.length).toBeGreaterThan(0);
    expect(await rows(stage, LIVE)).toEqual(truthOf(comments));
    comments.get('p1')?.pop();
    expect((await stage.run('backfill')).resources[0]).toMatchObject({ status: 'ok', deleted: 1 });
    expect(await rows(stage, LIVE)).toEqual(truthOf(comments));
  });

  it('may be that of another field of the parent, and of a child of a child', async () => {
    const posts = ['a b', 'c/d', '..x'].map((slug, at) => ({ id: at, slug, updated_at: MOMENT(at) }));
    const comments = posts.map(({ slug }, at) => ({ id: 7, of: slug, title: String(at), updated_at: MOMENT(at) }));
    const likes = comments.map(({ of: post }) => ({ id: 1, title: post, updated_at: MOMENT(1) }));
    const answers = new Map([
      ['/posts', (url: URL) => listed(posts, url)],
      ['/comments', (url: URL) => byPost(comments, url, 'of')],
      ['/likes', (url: URL) => byPost(likes, url, 'title')],
    ]);
    const respond = (url: URL): Reply => answers.get(url.pathname)?.(url) ?? { status: 404, body: {} };
    const page = STYLES.numbered;
    const { stage } = await stageFor(
      database,
      {
        likes: {
          path: '/likes',
          page,
          partitions: { parent: 'comments', parent_id: 'of', field: 'post', param: 'post' },
        },
        comments: {
          path: '/comments',
          page,
          partitions: { parent: 'posts', parent_id: 'slug', field: 'of', param: 'post' },
        },
        posts: { path: '/posts', page },
      },
      respond,
    );
    const statuses = (await stage.run('backfill')).resources.map(({ status, inserted }) => [status, inserted]);
    expect(statuses).toEqual([
      ['ok', 3],
      ['ok', 3],
      ['ok', 3],
    ]);
    const keys = ['["..x",1]', '["a b",1]', '["c/d",1]'].map((key) => key.replace('1]', '"1"]'));
    expect(await rows(stage, 'SELECT _id FROM likes ORDER BY _id')).toEqual(keys);
  });

  it('is partial where nothing proves that all rows of its parent are there', async () => {
    const { posts, comments, stage } = await blog({}, 'cursor', { ...STYLES.cursor, total: 'total' });
    posts.set('p4', { id: 'p4', updated_at: MOMENT(4), hides: true });
    const { resources } = await stage.run('backfill');
    expect(resources[0]).toMatchObject({ status: 'partial', inserted: 10 });
    expect(JSON.stringify(resources[0]?.warnings)).toContain('parents_unproved');
    expect(await rows(stage, LIVE)).toEqual(truthOf(comments));
  });

  it('is not walked without its parent, nor while that is copied for the first time', async () => {
    const { stage } = await blog();
    const alone = () => stage.run('backfill', { resources: ['comments'] });
    const refused = { resources: [{ status: 'failed', error: { code: 'parent_not_synced' } }] };
    expect(await alone()).toMatchObject(refused);
    await stage.run('backfill', { resources: ['posts'], stopAfter: 1 });
    expect(await alone()).toMatchObject(refused);
    await stage.run('backfill', { resources: ['posts'] });
    expect(await alone()).toMatchObject({ status: 'ok' });
  });
});
