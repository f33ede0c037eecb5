import Database from 'better-sqlite3';
import { onTestFinished, describe, expect, it } from 'vitest';
import { loading } from '../support/page-loading.ts';
import { rowsIn, tempWarehouse } from '../support/temp-warehouse.ts';

const RECORD = JSON.stringify({
  id: 'p1',
  title: 'Title',
  published: true,
  featured: false,
  views: 9_007_199_254,
  reading_minutes: 4.5,
  price: 0,
  published_at: '2024-01-01T08:49:39.676Z',
  updated_at: '2024-01-01T10:49:39+02:00',
  day: '2024-02-29',
  seo: { title: 'SEO', image_id: null },
  tags: ['a', 'b'],
  authors: [{ handle: 'ann', since: '2020-01-01T00:00:00Z' }],
}).replace('"price":0', '"price":0.12345678901234567890');

/** A warehouse with one record, as another program finds it. */
async function filled() {
  const { warehouse, file } = await tempWarehouse();
  const { load } = await loading(warehouse, { profile: { json: ['seo'] } });
  await load([RECORD], Date.parse('2026-11-20T08:00:00.500Z'));
  return { load, file };
}

function columnsOf(file: string, table: string): string[] {
  const columns = rowsIn(file, 'SELECT name, type, "notnull" AS must, pk FROM pragma_table_info(?)', table);
  return columns.map(({ name, type, must, pk }) =>
    [name, type, must === 1n ? 'not null' : '', pk === 0n ? '' : `key ${String(pk)}`].filter(Boolean).join(' '),
  );
}

describe('what BI clients read in the file', () => {
  it('every table of ours has keys that are never null, and no type that SQLite reads as something else', async () => {
    const { file } = await filled();
    const tables = rowsIn(file, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '%migrations%'");
    expect(tables.length).toBeGreaterThan(10);
    const allowed = / (text|bigint|integer|double|boolean|date|timestamp|blob)( not null)?( key \d)?$/i;
    for (const name of tables.map((table) => String(table['name']))) {
      const columns = columnsOf(file, name);
      expect(columns.filter((column) => !allowed.test(column))).toEqual([]);
      const keys = columns.filter((column) => column.includes(' key '));
      expect(keys.filter((key) => !key.includes('not null'))).toEqual([]);
      // The one is a log; the other never has a row.
      expect(keys.length > 0 || ['_sync_schema_changes', '_sync_types'].includes(name)).toBe(true);
    }
  });

  it('times as UTC text with milliseconds only where there are some, booleans as 0 and 1, digits kept', async () => {
    const { file } = await filled();
    expect(
      rowsIn(
        file,
        'SELECT published, featured, views, reading_minutes, price, published_at, updated_at, day, seo FROM content',
      ),
    ).toEqual([
      {
        published: 1n,
        featured: 0n,
        views: 9_007_199_254n,
        reading_minutes: 4.5,
        price: '0.12345678901234567890',
        published_at: '2024-01-01 08:49:39.676',
        updated_at: '2024-01-01 08:49:39',
        day: '2024-02-29',
        seo: '{"title":"SEO","image_id":null}',
      },
    ]);
    const kinds =
      'SELECT typeof(published) AS b, typeof(views) AS i, typeof(reading_minutes) AS d, typeof(price) AS n, typeof(published_at) AS t FROM content';
    expect(rowsIn(file, kinds)).toEqual([{ b: 'integer', i: 'integer', d: 'real', n: 'text', t: 'text' }]);
    expect(rowsIn(file, 'SELECT _version, _synced_at, _deleted_at FROM content')).toEqual([
      { _version: 1n, _synced_at: '2026-11-20 08:00:00.500', _deleted_at: null },
    ]);
    // SQLite's own date functions take them as they are.
    expect(
      rowsIn(
        file,
        "SELECT strftime('%H:%M:%f', published_at) AS t, julianday(day) - julianday(updated_at) > 58 AS d FROM content",
      ),
    ).toEqual([{ t: '08:49:39.676', d: 1n }]);
    expect(rowsIn(file, "SELECT typeof(body) AS kind, body ->> 'published_at' AS at FROM _sync_versions")).toEqual([
      { kind: 'text', at: '2024-01-01T08:49:39.676Z' },
    ]);
  });
});

describe('a reader that is at it', () => {
  it('F135 sees one consistent state while columns are added and widened, and the new one when it asks again', async () => {
    const { load, file } = await filled();
    await load(Array.from({ length: 50 }, (_, index) => `{"id":"q${index}","views":${index}}`));
    const reader = new Database(file, { readonly: true });
    onTestFinished(() => void reader.close());
    const select = reader.prepare<[], Record<string, unknown>>('SELECT * FROM content ORDER BY id');
    const seen: Record<string, unknown>[] = [];
    const rows = select.iterate();
    for (let row = rows.next(); row.done !== true; row = rows.next()) {
      seen.push(row.value);
      if (seen.length === 1) await load(['{"id":"p1","views":1.5,"fresh":"new","tags":[1]}', '{"id":"q99"}']);
    }
    expect(seen).toHaveLength(51);
    expect(seen[0]).toMatchObject({ id: 'p1', views: 9_007_199_254, title: 'Title' });
    expect(seen[0]).not.toHaveProperty('fresh');
    const after = select.all();
    expect(after).toHaveLength(52);
    expect(after[0]).toMatchObject({ id: 'p1', views: 1.5, title: null, fresh: 'new' });
    const declared = reader.prepare<[], Record<string, unknown>>('SELECT views FROM content').columns()[0];
    expect(declared).toMatchObject({ type: 'DOUBLE' });
  });
});

describe('the rows themselves', () => {
  it('a page that was asked for earlier never overwrites one that was asked for later', async () => {
    const { warehouse, file } = await tempWarehouse();
    const { load } = await loading(warehouse, { profile: { updated: null, history: 'all' } });
    await load(['{"id":"1","n":2,"tags":["late"]}'], 2_000);
    const outcome = await load(['{"id":"1","n":1,"tags":["early"]}', '{"id":"2","n":1}'], 1_000);
    expect(outcome).toMatchObject({ inserted: 1, updated: 0, unchanged: 1 });
    expect(rowsIn(file, 'SELECT id, n, _version FROM content ORDER BY id')).toEqual([
      { id: '1', n: 2n, _version: 1n },
      { id: '2', n: 1n, _version: 1n },
    ]);
    expect(rowsIn(file, 'SELECT value FROM content_tags')).toEqual([{ value: 'late' }]);
    expect(rowsIn(file, 'SELECT count(*) AS n FROM _sync_versions')).toEqual([{ n: 2n }]);
  });

  it.each([
    ['all', ['{"id":"1","n":1} until 1970-01-01 00:00:02.000', '{"id":"1","n":2} until null']],
    ['latest', ['{"id":"1","n":2} until null']],
    ['none', []],
  ])('history %s keeps these bodies, and another order of keys is no version', async (history, bodies) => {
    const { warehouse, file } = await tempWarehouse();
    const { load } = await loading(warehouse, { profile: { history } });
    await load(['{"id":"1","n":1}'], 1_000);
    await load(['{"id":"1","n":2}'], 2_000);
    await load(['{"n":2,  "id":"1"}'], 3_000);
    const versions = rowsIn(file, 'SELECT body, valid_to FROM _sync_versions ORDER BY version');
    expect(versions.map(({ body, valid_to }) => `${String(body)} until ${String(valid_to)}`)).toEqual(bodies);
    expect(rowsIn(file, 'SELECT n, _version FROM content')).toEqual([{ n: 2n, _version: 2n }]);
  });
});
