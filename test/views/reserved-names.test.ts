import { describe, expect, it } from 'vitest';
import { startListing } from '../pagination/listing-server.ts';
import { DATABASES, SQLITE, type TestDatabase } from '../support/databases.ts';
import { journey } from '../support/journey.ts';
import { asReader } from '../support/postgres-clients.ts';

type Row = Record<string, unknown>;

/** Names that views of ours have where they are free. */
const NAMES = [
  'calendar',
  'content_live',
  'content_summary',
  'content_history',
  'content_changes',
  'content_states',
  'content_as_of',
  'sync_deletes',
  'sync_freshness',
  'sync_dictionary',
  'sync_schema_log',
];
/** On no database a view of ours has this one. */
const VIEWS = NAMES.filter((name) => name !== 'content_as_of').map((name) => `${name}_view`);

const POSTS = [
  { id: 'a', status: 'draft', score: 1, updated_at: '2024-05-01T10:00:00Z' },
  { id: 'b', status: 'published', score: 2, updated_at: '2024-05-02T10:00:00Z' },
];

const TAGS: Readonly<Record<string, string[]>> = { a: ['x', 'y'], b: [] };

function resource(name: string): Row {
  return { page: { style: 'cursor' }, updated: null, path: `/${name}` };
}

/** Asks the warehouse as any other program would. */
function asking(database: TestDatabase, address: string) {
  const ask = async (query: string): Promise<Row[]> =>
    database.name === 'sqlite'
      ? database.read(address, (db) => db.prepare<[], Row>(query).all())
      : asReader(address, async (client) => (await client.query<Row>(query)).rows);
  return {
    ask,
    /** Ids of the rows. */
    ids: async (name: string) => (await ask(`SELECT id FROM ${name} ORDER BY id`)).map(({ id }) => id),
  };
}

/** A service whose resources all have the posts as their records, and a copy of it. Its profile has `content` alone. */
async function copied(database: TestDatabase) {
  const service = await startListing(({ pathname }) => ({
    body: {
      data: pathname.endsWith('/content') ? POSTS.map((post) => ({ ...post, tags: TAGS[post.id] })) : POSTS,
      next_cursor: null,
    },
  }));
  const content = { ...resource('content'), history: 'all', state: 'status' };
  const others = Object.fromEntries(NAMES.map((name) => [name, resource(name)]));
  const none = { images: null, analytics: null };
  const stage = await journey({
    database,
    profile: { relations: {}, resources: { ...none, content } },
    source: { base_url: service.url.href },
  });
  return {
    ...asking(database, stage.address),
    /** What is not ok of a run. */
    walk: async () =>
      (await stage.run('backfill')).resources.flatMap(({ resource: name, status, error }) =>
        status === 'ok' ? [] : [`${name}: ${error?.message ?? status}`],
      ),
    /** The profile gets the other resources, behind `content` or before it. */
    widen: (isFirst = false) =>
      stage.setProfile({
        relations: {},
        resources: { ...none, ...(isFirst ? { ...others, content } : { content, ...others }) },
      }),
  };
}

type Copied = ReturnType<typeof asking>;

/** Tables and views with the names that resources have are tables, and the views stand behind. */
async function expectBoth(copy: Copied): Promise<void> {
  for (const name of NAMES) {
    expect([name, await copy.ids(name)]).toEqual([name, ['a', 'b']]);
  }
  expect(await copy.ids('content_live_view')).toEqual(['a', 'b']);
  expect(await copy.ids('content_history_view')).toEqual(['a', 'b']);
  expect(await copy.ask('SELECT id, tags, tags_count AS n FROM content_summary_view ORDER BY id')).toMatchObject([
    { id: 'a', tags: 'x, y' },
    { id: 'b', tags: null },
  ]);
  const days = await copy.ask(`SELECT count(*) AS n FROM calendar_view WHERE month = '2024-05'`);
  expect(Number(days[0]?.['n'])).toBe(31);
  const fresh = await copy.ask('SELECT resource FROM sync_freshness_view ORDER BY resource');
  expect(fresh.map(({ resource }) => resource)).toEqual(['content', ...NAMES].toSorted());
  expect(await copy.ask('SELECT * FROM sync_deletes_view')).toEqual([]);
  expect((await copy.ask(`SELECT * FROM sync_schema_log_view WHERE table_name = 'calendar'`)).length).toBeGreaterThan(
    2,
  );
  const known = await copy.ask(
    'SELECT table_name AS name, count(*) AS n, count(DISTINCT column_name) AS d FROM sync_dictionary_view GROUP BY 1',
  );
  const columns = new Map(known.map(({ name, n }) => [String(name), Number(n)]));
  expect(known.filter(({ n, d }) => n !== d)).toEqual([]);
  expect([...NAMES, ...VIEWS].filter((name) => !columns.has(name))).toEqual([]);
  for (const name of [...NAMES, ...VIEWS]) {
    const [row = {}] = await copy.ask(`SELECT t.* FROM (SELECT 1 AS one) AS o LEFT JOIN ${name} AS t ON true LIMIT 1`);
    expect([name, Object.keys(row).length]).toEqual([name, columns.get(name)]);
  }
}

/** In SQLite a view finds what it stands on by name. */
const BUILT = {
  sqlite: { build: [], built: [] },
  postgres: {
    build: ['CREATE VIEW mine AS SELECT l.id, (SELECT min(month) FROM calendar) AS month FROM content_live AS l'],
    built: ['SELECT id FROM mine', 'SELECT id FROM content_as_of(now())'],
  },
} as const;

/** Since when a view is known to have its columns. */
function since(dictionary: string, view: string): string {
  return `SELECT column_name, first_seen FROM ${dictionary} WHERE table_name = '${view}' ORDER BY column_name`;
}

describe.for(DATABASES)('resources with the names of views, on $name', (database) => {
  it('get their names when they come later: the existing views move, on Postgres with what was built on them', async () => {
    const copy = await copied(database);
    expect(await copy.walk()).toEqual([]);
    const before = [
      await copy.ask('SELECT * FROM content_summary'),
      await copy.ask(since('sync_dictionary', 'content_live')),
    ];
    const { build, built } = BUILT[database.name];
    for (const statement of build) await copy.ask(statement);
    copy.widen();
    expect(await copy.walk()).toEqual([]);
    await expectBoth(copy);
    const after = await copy.ask(since('sync_dictionary_view', 'content_live_view'));
    expect([await copy.ask('SELECT * FROM content_summary_view'), after]).toEqual(before);
    for (const query of built) expect(await copy.ask(query)).toHaveLength(2);
    expect(await copy.walk()).toEqual([]);
  });
});

it('resources with the names of views have them from the first run on', async () => {
  const copy = await copied(SQLITE);
  copy.widen(true);
  expect(await copy.walk()).toEqual([]);
  await expectBoth(copy);
});
