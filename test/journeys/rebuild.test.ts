import { describe, expect, it } from 'vitest';
import { asOtherClient, DATABASES, type TestDatabase } from '../support/databases.ts';
import { longOrShort } from '../support/length.ts';
import { ownStage, type OwnStage } from '../support/own-stage.ts';

/** More than are read at once; in the short form on one database. */
const COUNTS = longOrShort({ sqlite: 700, postgres: 700 }, { sqlite: 520, postgres: 80 });
const record = (id: number) => ({
  id,
  updated_at: '2024-01-01T00:00:00Z',
  title: `Title ${id}`,
  code: String(id),
  secret: `hidden-needle-${id}`,
  size: id === 3 ? 9_007_199_254_740 : id / 2,
  seo: { image: { id: `i${id}`, alt: { text: 'x' } }, robots: id % 2 === 0 ? 'all' : null },
  tags: ['a', `t${id % 7}`],
  authors: [{ handle: `h${id}`, links: [{ url: `u${id}` }] }],
  extra: { any: id, list: [1, 2] },
});
const recordsFor = ({ name }: TestDatabase) => Array.from({ length: COUNTS[name] }, (_, at) => record(at + 1));

const BEFORE = { history: 'all', depth: 2 };
const AFTER = {
  history: 'all',
  depth: 5,
  json: ['extra'],
  fields: { secret: { exclude: true }, code: { type: 'integer' }, title: { rename: 'headline' } },
};

/** Everything in the copied tables of a stage but what tells when it was copied. */
function tables(stage: OwnStage): Promise<Record<string, unknown[]>> {
  return stage.read((db) => {
    const names = db
      .prepare<[], string>("SELECT DISTINCT table_name FROM _sync_columns WHERE resource = 'content' ORDER BY 1")
      .pluck()
      .all();
    const rows = names.map((name): [string, unknown[]] => {
      const all = db.prepare<[], Record<string, unknown>>(`SELECT * FROM "${name}" ORDER BY 1, 2`).all();
      return [name, all.map(({ _synced_at, _version, _hash, _deleted_at, ...row }) => row)];
    });
    const columns = db
      .prepare(
        "SELECT table_name, column_name, source_path, type, role FROM _sync_columns WHERE resource = 'content' ORDER BY 1, 2",
      )
      .all();
    return Object.fromEntries([...rows, ['columns', columns]]);
  });
}

const LOOK = `SELECT (SELECT count(*) FROM content) AS rows, (SELECT count(*) FROM content_tags) AS tags,
  (SELECT count(*) FROM content_live) AS live`;

/** As any reader would: in one statement. */
function looked(stage: OwnStage, { name }: TestDatabase): Promise<unknown> {
  if (name === 'sqlite') return stage.rows(LOOK).then(([row]) => row);
  return asOtherClient(stage.address, async (client) => {
    const { rows } = await client.query<Record<string, unknown>>(LOOK);
    return Object.fromEntries(Object.entries(rows[0] ?? {}).map(([what, count]) => [what, Number(count)]));
  });
}

const MADE_BY_PEOPLE =
  "CREATE VIEW by_people AS SELECT id FROM content_live; COMMENT ON COLUMN content.code IS 'of people'";
const SAID = `SELECT (SELECT count(*)::int FROM by_people) AS n, col_description('content'::regclass, attnum) AS said
  FROM pg_attribute WHERE attrelid = 'content'::regclass AND attname = 'code'`;

/** What people made on the tables and views, and wrote over them; SQLite has no such comments. */
async function ofPeople(stage: OwnStage, { name }: TestDatabase): Promise<unknown[]> {
  if (name === 'sqlite') return [{ n: COUNTS[name], said: 'of people' }];
  return asOtherClient(stage.address, async (client) => (await client.query<Record<string, unknown>>(SAID)).rows);
}

const leftovers = (stage: OwnStage) =>
  stage.all("SELECT name FROM sqlite_schema WHERE name LIKE '\\_sync\\_beside%' ESCAPE '\\'");

async function setting(database: TestDatabase): Promise<{ stage: OwnStage; fresh: OwnStage }> {
  const stage = await ownStage(database, recordsFor(database), { content: BEFORE });
  const fresh = await ownStage(database, recordsFor(database), { content: AFTER });
  return { stage, fresh };
}

describe.for(DATABASES)('a rebuild on $name', { timeout: 120_000 }, (database) => {
  it('makes what a first backfill under the new profile would, and readers see the old or the new', async () => {
    const { stage, fresh } = await setting(database);
    const count = COUNTS[database.name];
    if (database.name === 'postgres') await asOtherClient(stage.address, (client) => client.query(MADE_BY_PEOPLE));
    const asked = stage.service.asked.length;
    stage.setProfile({ resources: { content: AFTER } });
    expect((await stage.command('sync', 'content')).stderr).toContain('content-sync warehouse rebuild content');
    const seen = new Set<string>();
    const command = stage.start('rebuild', 'content', '--json');
    for (let done = false; !done;) {
      done = await Promise.race([
        command.ended.then(() => true),
        new Promise<false>((end) => setTimeout(end, 5, false)),
      ]);
      const now = await looked(stage, database);
      seen.add(JSON.stringify(now));
    }
    const { code, signal, stdout, stderr } = await command.ended;
    expect([stderr, code, signal]).toEqual(['', 0, null]);
    expect(JSON.parse(stdout)).toMatchObject({
      resources: [
        {
          records: count,
          bodiless: 0,
          masked: count,
          gone: expect.arrayContaining(['content.secret']),
        },
      ],
    });
    expect([...seen]).toEqual([JSON.stringify({ rows: count, tags: 2 * count, live: count })]);
    expect(stage.service.asked.length).toBe(asked);
    expect(await tables(stage)).toEqual(await tables(fresh));
    expect(await leftovers(stage)).toEqual([]);
    expect(JSON.stringify(await stage.rows('SELECT * FROM _sync_versions'))).not.toContain('hidden-needle');
    expect(await ofPeople(stage, database)).toEqual([{ n: count, said: 'of people' }]);
    // From then on the copy is synced as before, and nothing of it changes.
    expect(await stage.walk('backfill')).toMatchObject({ status: 'ok', inserted: 0, updated: 0, unchanged: count });
    expect(await tables(stage)).toEqual(await tables(fresh));
    const again = await stage.command('rebuild', 'content', '--json');
    expect(JSON.parse(again.stdout)).toMatchObject({
      resources: [{ records: count, masked: 0, gone: [], changed: [] }],
    });
    expect(await tables(stage)).toEqual(await tables(fresh));
  });

  it('keeps deleted rows with their stamps, and what records without a body had', async () => {
    const stage = await ownStage(database, recordsFor(database).slice(0, 5), {
      content: { history: 'latest' },
      source: { deletes: { max_part: 1 } },
    });
    stage.service.records.delete('3');
    expect(await stage.walk('backfill')).toMatchObject({ deleted: 1 });
    await stage.write("DELETE FROM _sync_versions WHERE id = '5'");
    const stamps = 'SELECT id, size, _version, _synced_at, _deleted_at, _hash FROM content ORDER BY id';
    const before = await stage.rows(stamps);
    stage.setProfile({ resources: { content: { history: 'latest', fields: { title: { rename: 'headline' } } } } });
    const { stdout, stderr } = await stage.command('rebuild', 'content');
    expect(stderr).toBe('');
    expect(stdout).toContain('1 of them have no stored body');
    expect(await stage.rows(stamps)).toEqual(before);
    expect(await stage.rows('SELECT id, headline FROM content WHERE _deleted_at IS NULL ORDER BY id')).toEqual([
      ...[1, 2, 4].map((id) => ({ id: String(id), headline: `Title ${id}` })),
      { id: '5', headline: null },
    ]);
    const tags = await stage.rows('SELECT content_id, count(*) AS n FROM content_tags GROUP BY 1 ORDER BY 1');
    expect(tags).toEqual(['1', '2', '4', '5'].map((content_id) => ({ content_id, n: 2 })));
  });

  it('is refused where bodies do not tell, with what to do', async () => {
    const stage = await ownStage(database, [record(1)], { content: { history: 'none' } });
    const none = await stage.command('rebuild', 'content');
    expect([none.code, none.stderr]).toEqual([2, expect.stringContaining('[warehouse_missing]')]);
    stage.setProfile({ resources: { content: { history: 'latest', filter: [{ field: 'code', in: ['1'] }] } } });
    const other = await stage.command('rebuild', 'content');
    expect([other.code, other.stderr]).toEqual([2, expect.stringContaining('--restart')]);
  });
});
