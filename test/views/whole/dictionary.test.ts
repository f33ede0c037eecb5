import { describe, expect, it } from 'vitest';
import {
  DATABASES,
  eitherDatabase,
  postgresDatabase,
  preparedAddress,
  type TestDatabase,
} from '../../support/databases.ts';
import { journey, type Journey } from '../../support/journey.ts';
import { asReader } from '../../support/postgres-clients.ts';

type Row = Record<string, unknown>;

const RELATIONS = { 'analytics.content_id': 'content.id', 'content.seo_image_id': 'images.id' };

async function ask(database: TestDatabase, address: string, query: string): Promise<Row[]> {
  return database.name === 'sqlite'
    ? database.read(address, (db) => db.prepare<[], Row>(query).all())
    : asReader(address, async (client) => (await client.query<Row>(query)).rows);
}

/** Every column that people see, as the database itself tells it. */
const COLUMNS = {
  sqlite: `SELECT t.name || '.' || c.name AS name, upper(c.type) AS type FROM sqlite_schema AS t
    JOIN pragma_table_info(t.name) AS c WHERE t.type IN ('table', 'view') AND t.name NOT LIKE '\\_sync\\_%' ESCAPE '\\'
    AND t.name NOT LIKE 'sqlite%'`,
  postgres: `SELECT relname || '.' || attname AS name, CASE atttypid WHEN 'timestamptz'::regtype THEN 'timestamptz'
      ELSE format_type(atttypid, atttypmod) END AS type
    FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped
    WHERE relnamespace = 'blog'::regnamespace AND relkind IN ('r', 'v') AND NOT starts_with(relname, '_sync_')`,
} as const;

async function copied(database: TestDatabase, isNew = false): Promise<Journey> {
  // Its views are looked for in a schema of that name.
  const setting = async (): Promise<string> =>
    isNew ? `${await postgresDatabase()}?schema=blog` : preparedAddress(database);
  const own = database.name === 'sqlite' ? database : { ...database, setting };
  const profile = { relations: RELATIONS };
  const blog = await journey({
    database: own,
    isNew,
    profile,
    sandbox: { generate: { content: 20, images: 5, analytics: 20 } },
  });
  expect((await blog.run('backfill')).status).toBe('ok');
  return blog;
}

describe.for(DATABASES)('sync_dictionary on $name', (database) => {
  it('tells of every column that people see, with the type that their clients are told', async () => {
    const blog = await copied(database);
    const said = await ask(database, blog.address, 'SELECT * FROM sync_dictionary');
    const types = new Map(said.map((row) => [`${String(row['table_name'])}.${String(row['column_name'])}`, row]));
    expect(types.size).toBe(said.length);
    const columns = await ask(database, blog.address, COLUMNS[database.name]);
    const wrong = columns.filter(({ name, type }) => type !== types.get(String(name))?.['type']);
    expect(wrong).toEqual([]);
    expect([...types.keys()].toSorted()).toEqual(columns.map(({ name }) => String(name)).toSorted());
    expect(said.filter((row) => typeof row['description'] !== 'string')).toEqual([]);
    expect(said.filter((row) => row['first_seen'] === null)).toEqual([]);
  });

  it('says where a value comes from, and which key it names', async () => {
    const blog = await copied(database);
    const rows = await ask(
      database,
      blog.address,
      `SELECT table_name, column_name, source_path, "references" AS key FROM sync_dictionary
        WHERE column_name IN ('content_id', 'seo_image_id', '_deleted_at') AND table_name IN
          ('content', 'content_live', 'content_tags', 'analytics', 'analytics_live') ORDER BY table_name, column_name`,
    );
    const shown = rows.map((row) =>
      Object.values(row)
        .map((cell) => (typeof cell === 'string' ? cell : '-'))
        .join(' '),
    );
    expect(shown).toEqual([
      'analytics _deleted_at - -',
      'analytics content_id content_id content.id',
      'analytics_live content_id content_id content.id',
      'content _deleted_at - -',
      'content seo_image_id seo.image.id images.id',
      'content_live seo_image_id seo.image.id images.id',
      'content_tags content_id - content.id',
    ]);
  });
});

describe.for(eitherDatabase(import.meta.filename))('marks in sync_dictionary on $name', (database) => {
  it('are on keys and on personal data, in tables and views', async () => {
    const fields = { 'authors.handle': { hash: true }, title: { hash: true }, body: { exclude: true } };
    const stage = await journey({
      database,
      profile: { resources: { content: { fields } } },
      source: { hash_key: 'a-key-of-the-source', resources: ['content'] },
      sandbox: { generate: { content: 10, images: 0, analytics: 0 } },
    });
    expect((await stage.run('backfill')).status).toBe('ok');
    const marked = async (mark: string): Promise<string[]> =>
      (
        await ask(
          database,
          stage.address,
          `SELECT table_name || '.' || column_name AS name FROM sync_dictionary WHERE ${mark} AND table_name NOT LIKE '%_states'
            AND table_name NOT LIKE '%_tags%' AND table_name NOT LIKE '%_image_ids%'`,
        )
      ).map(({ name }) => String(name));
    expect((await marked('is_key')).toSorted(byCode)).toEqual([
      'content.id',
      'content_authors.content_id',
      'content_authors.position',
      'content_authors_live.content_id',
      'content_authors_live.position',
      'content_history.id',
      'content_history.version',
      'content_live.id',
      'content_summary.id',
    ]);
    const personal = [
      'content.title',
      'content_authors.handle',
      'content_authors_live.handle',
      'content_history.authors',
      'content_history.title',
      'content_live.title',
      'content_summary.authors_handle',
      'content_summary.title',
    ];
    expect((await marked('is_personal')).toSorted(byCode)).toEqual(personal);
    expect((await marked('NOT is_personal')).length).toBeGreaterThan(personal.length);
  });
});

function byCode(a: string, b: string): number {
  return a < b ? -1 : 1;
}

describe.for(DATABASES)('sync_schema_log and sync_freshness on $name', (database) => {
  it('tell what has changed', async () => {
    const blog = await copied(database);
    const [first] = blog.sandbox.store.list('content');
    const changed = { ...JSON.parse(first?.text ?? ''), word_count: 1.5, updated_at: '2026-05-01T10:00:00Z' };
    blog.sandbox.store.put('content', changed);
    await blog.run('backfill');
    const log = await ask(
      database,
      blog.address,
      `SELECT table_name, column_name, lower(from_type) AS a, lower(to_type) AS b FROM sync_schema_log WHERE from_type IS NOT NULL`,
    );
    const double = database.name === 'sqlite' ? 'double' : 'double precision';
    expect(log).toEqual([{ table_name: 'content', column_name: 'word_count', a: 'bigint', b: double }]);
    const [fresh = {}] = await ask(
      database,
      blog.address,
      `SELECT CAST(newest_record_at AS TEXT) AS newest, rows_live, rows_deleted, rows_altered
        FROM sync_freshness WHERE resource = 'content'`,
    );
    expect(Object.values(fresh).map((value) => String(value).slice(0, 10))).toEqual(['2026-05-01', '20', '0', '1']);
  });

  it('stands beside a calendar over the years of the data and two more', async () => {
    const blog = await copied(database, true);
    const years = 'SELECT min(year) AS first, max(year) AS last, count(*) AS n FROM calendar';
    const [{ first, last, n } = {}] = await ask(database, blog.address, years);
    const now = new Date().getUTCFullYear();
    const [oldest] = await ask(database, blog.address, 'SELECT CAST(min(created_at) AS TEXT) AS day FROM content_live');
    expect([Number(first), Number(last)]).toEqual([Number(String(oldest?.['day']).slice(0, 4)), now + 2]);
    expect(Number(n)).toBe((Date.UTC(now + 3, 0, 1) - Date.UTC(Number(first), 0, 1)) / 86_400_000);
    const later = Date.UTC(now + 1, 0, 1, 10);
    const clock = { ...(await import('../../../src/observe/system-clock.ts')).systemClock, now: () => later };
    await blog.run('sync', { resources: ['images'], clock });
    const [next] = await ask(database, blog.address, years);
    expect(Number(next?.['last'])).toBe(now + 3);
  });
});
