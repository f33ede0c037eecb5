import { describe, expect, it } from 'vitest';
import { shapeRecords } from '../../../src/rows/shape-page.ts';
import { rewriteRows } from '../../../src/database/state/stored-rows.ts';
import { DATABASES, warehouseOn, type TestDatabase } from '../../support/databases.ts';
import { loading } from '../../support/page-loading.ts';
import { recordsOf } from '../../support/page-records.ts';

const OLD = [
  '{"id":"1","n":1,"text":"one","tags":["a","b"],"odd":{"deep":1}}',
  '{"id":"2","n":2,"text":"two","tags":["c"]}',
  '{"id":"3","n":3,"text":"three","tags":["d","e","f"]}',
];
/** The same records, as their stored bodies would make other rows of them. */
const NEW = [
  '{"id":"1","n":-0.0,"text":"\\\\N\\t€ 😀","tags":["z"],"odd":{"deep":12345678901}}',
  '{"id":"2","text":null,"tags":[]}',
  '{"id":"3","n":33,"text":"changed","tags":["changed"]}',
  '{"id":"4","n":44,"text":"gone","tags":["gone"]}',
];

async function rewritten(database: TestDatabase, versions: Readonly<Record<string, number>>) {
  const { warehouse, rows } = await warehouseOn(database);
  const { context, load } = await loading(warehouse);
  await load(OLD, 1_000);
  // The third has another version than its body was read of.
  await load(['{"id":"3","n":4,"text":"later","tags":["later"]}'], 2_000);
  const { owned, profile } = context;
  const { shape } = owned;
  if (shape === null) throw new Error('the tables are there');
  const read = () => rows('SELECT id, n, text, _hash, _version, _synced_at FROM content ORDER BY id');
  const before = await read();
  const records = recordsOf(NEW).map(({ value, bytes }, at) => ({ key: String(at + 1), value, bytes }));
  const shaped = shapeRecords({ shape, profile, records });
  const lease = owned.lease();
  const children = shape.tables.slice(1);
  await rewriteRows(warehouse, {
    lease,
    resource: 'content',
    rows: shaped.rows,
    versions: new Map(Object.entries(versions)),
    children,
    statements: [warehouse.own.insertInto('_sync_limits').values(NOTED).compile()],
  });
  const lists = await rows('SELECT content_id AS id, value FROM content_tags ORDER BY 1, 2');
  const noted = await rows('SELECT name FROM _sync_limits');
  return { before, after: await read(), lists, noted };
}

const NOTED = { name: 'noted', state: '{}', updated_at: '2026-01-01 00:00:00.000' };

describe.for(DATABASES)('rows that are written anew on $name', (database) => {
  it('have the cells of the stored bodies, and keep what is ours', async () => {
    const { before, after, lists, noted } = await rewritten(database, { 1: 1, 2: 1, 3: 1, 4: 1 });
    const [first, second, third] = before;
    expect(after).toEqual([
      { ...first, n: expect.anything(), text: '\\N\t€ 😀' },
      { ...second, n: null, text: null },
      third,
    ]);
    expect(Math.abs(Number(after[0]?.['n']))).toBe(0);
    expect(lists).toEqual([
      { id: '1', value: 'z' },
      { id: '3', value: 'later' },
    ]);
    expect(noted).toEqual([{ name: 'noted' }]);
  });

  it('stay as they are where they are of another version, with their lists', async () => {
    const { before, after, lists } = await rewritten(database, { 1: 7, 3: 2 });
    expect(after.slice(0, 2)).toEqual(before.slice(0, 2));
    expect(after[2]).toMatchObject({ text: 'changed', _version: 2n });
    expect(lists.map(({ value }) => value)).toEqual(['a', 'b', 'c', 'changed']);
  });
});
