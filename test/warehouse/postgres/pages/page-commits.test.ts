import { describe, expect, it } from 'vitest';
import type { Warehouse } from '../../../../src/warehouse/warehouse.ts';
import { asOtherClient, POSTGRES, warehouseOn } from '../../../support/databases.ts';
import { loading } from '../../../support/page-loading.ts';

function recordsOf(from: number, count: number, rest = (id: number): string => `"n":${id}`): string[] {
  return Array.from({ length: count }, (_, at) => `{"id":"${from + at}",${rest(from + at)}}`);
}

/** Loads pages; `between` is called when a page is prepared and not yet committed. */
async function staged(between: () => Promise<void> = () => Promise.resolve()) {
  const { warehouse, rows, address } = await warehouseOn(POSTGRES);
  const watched: Warehouse = { ...warehouse, commit: (page) => between().then(() => warehouse.commit(page)) };
  return { ...(await loading(watched)), warehouse, rows, address };
}

/** Of a column that a view shows nobody changes the type. */
const DROP_VIEWS = `DO $$ DECLARE view text; BEGIN
  FOR view IN SELECT format('%I', viewname) FROM pg_views WHERE schemaname = current_schema() LOOP
    EXECUTE 'DROP VIEW IF EXISTS ' || view || ' CASCADE';
  END LOOP; END $$`;

describe.skipIf(POSTGRES.missing !== null)('pages that Postgres commits', () => {
  it('hold what their own records say, whatever their sizes are and how soon the next one comes', async () => {
    const { load, rows } = await staged();
    const sizes = [1, 400, 3, 1_000, 2, 150, 700, 1];
    let from = 0;
    const loaded: Promise<unknown>[] = [];
    for (const [at, size] of sizes.entries()) {
      const texts = recordsOf(from, size, (id) => `"n":${id},"text":"${'x'.repeat(at * 50)}${id}","tags":["${id}"]`);
      loaded.push(load(texts, 1_000 + at));
      from += size;
    }
    await Promise.all(loaded);
    const wrong = `SELECT count(*) AS wrong FROM content JOIN content_tags ON content_id = id
      WHERE n <> CAST(id AS integer) OR replace(text, 'x', '') <> id OR value <> id`;
    expect(await rows('SELECT count(*) AS n FROM content')).toEqual([{ n: BigInt(from) }]);
    expect(await rows('SELECT count(*) AS n FROM content_tags')).toEqual([{ n: BigInt(from) }]);
    expect(await rows(wrong)).toEqual([{ wrong: 0n }]);
  });

  it.each([
    ['integer' as const, 'ALTER TABLE content ALTER COLUMN n TYPE integer'],
    ['numeric' as const, 'ALTER TABLE content ALTER COLUMN n TYPE numeric'],
    ['text' as const, 'ALTER TABLE content ALTER COLUMN n TYPE text USING n::text'],
  ])('are written all the same where somebody has made a column %s just then', async (type, change) => {
    let changes: string[] = [];
    const stage = await staged(async () => {
      for (const statement of changes.splice(0))
        await asOtherClient(stage.address, async (client) => void (await client.query(statement)));
    });
    await stage.load(recordsOf(0, 200), 1_000);
    changes = [DROP_VIEWS, change];
    expect(await stage.load(recordsOf(200, 200), 2_000)).toMatchObject({ inserted: 200 });
    expect(await stage.load(recordsOf(400, 200), 3_000)).toMatchObject({ inserted: 200 });
    const { rows } = await asOtherClient(stage.address, (client) =>
      client.query('SELECT count(*)::int AS n, min(pg_typeof(n)::text) AS type FROM content WHERE n::text = id'),
    );
    expect(rows).toEqual([{ n: 600, type }]);
  });

  it('leave nothing where one of their statements fails, and can be written afterwards', async () => {
    const { warehouse, context, load, rows } = await staged();
    await load(recordsOf(0, 1), 1_000);
    const { own } = warehouse;
    const twice = own
      .insertInto('_sync_limits')
      .values({ name: 'a', state: '{}', updated_at: '2026-01-01 00:00:00.000' });
    const commit: Warehouse['commit'] = (page) =>
      warehouse.commit({ ...page, statements: [...page.statements, twice.compile(), twice.compile()] });
    const broken = await loading({ ...warehouse, commit }, { resource: 'images' });
    await expect(broken.load(recordsOf(0, 300), 2_000)).rejects.toMatchObject({
      message: expect.stringMatching(/_sync_limits/),
    });
    expect(await rows('SELECT count(*) AS n FROM images')).toEqual([{ n: 0n }]);
    expect(await rows('SELECT count(*) AS n FROM _sync_limits')).toEqual([{ n: 0n }]);
    expect(context.owned.shape?.tables).toHaveLength(1);
    expect(await load(recordsOf(1, 300), 3_000)).toMatchObject({ inserted: 300 });
  });

  it('are not written by who has lost the lease', async () => {
    const { load, rows, address } = await staged();
    await load(recordsOf(0, 200), 1_000);
    await asOtherClient(address, (client) =>
      client.query("UPDATE _sync_leases SET token = token + 1, fence = 'other'"),
    );
    await expect(load(recordsOf(200, 200), 2_000)).rejects.toMatchObject({ code: 'lease_lost' });
    expect(await rows('SELECT count(*) AS n FROM content')).toEqual([{ n: 200n }]);
  });
});
