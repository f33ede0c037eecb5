import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { OWN_COLUMNS, type OwnColumn } from '../../src/warehouse/own-columns.ts';
import { rowsOf } from '../support/copied-cells.ts';
import { DATABASES, POSTGRES, warehouseOn } from '../support/databases.ts';
import { loading } from '../support/page-loading.ts';
import { copying } from '../sync/copy/copying.ts';

/** All that a further column of ours takes. */
const FURTHER: OwnColumn = {
  name: '_origin',
  type: 'text',
  isRequired: false,
  stamp: ({ key }, { resource }) => `${resource}/${key}`,
  comment: 'Where the record came from.',
};
const COUNT = OWN_COLUMNS.length;

beforeAll(() => void Object.assign(OWN_COLUMNS, { [COUNT]: FURTHER }));
// Other files of tests share this process.
afterAll(() => void Object.assign(OWN_COLUMNS, { length: COUNT }));

const ORIGINS = 'SELECT id, _origin FROM content ORDER BY id';
const STAMPED = [
  { id: '1', _origin: 'content/1' },
  { id: '2', _origin: 'content/2' },
];

describe.for(DATABASES)('a further column of ours on $name', (database) => {
  it('is stamped in the rows of resources, new and changed', async () => {
    const { warehouse, rows } = await warehouseOn(database);
    const { load } = await loading(warehouse);
    await load(['{"id":"1","tags":["a"]}', '{"id":"2"}']);
    await load(['{"id":"2","title":"changed"}'], Date.now() + 1);
    expect(await rows(ORIGINS)).toEqual(STAMPED);
    const [tag] = await rows('SELECT * FROM content_tags');
    expect(Object.keys(tag ?? {})).not.toContain(FURTHER.name);
  });

  it('comes to tables that stand, and is empty there until a row is written', async () => {
    const { warehouse, address, rows, write } = await warehouseOn(database);
    const { load } = await loading(warehouse);
    await load(['{"id":"1"}', '{"id":"2"}']);
    // As an earlier version has made it.
    await write('ALTER TABLE content DROP COLUMN _origin');
    await warehouseOn(database, address);
    expect((await rows(ORIGINS)).map(({ _origin }) => _origin)).toEqual([null, null]);
    await load(['{"id":"1","title":"changed"}', '{"id":"2","title":"changed"}'], Date.now() + 1);
    expect(await rows(ORIGINS)).toEqual(STAMPED);
  });
});

describe.skipIf(POSTGRES.missing !== null)('a further column of ours on its way to Postgres', () => {
  it('is copied, and says what it is', async () => {
    const stage = await copying();
    await stage.load(['{"id":"1"}', '{"id":"2"}']);
    await stage.copy();
    expect(await rowsOf(stage.to, ORIGINS)).toEqual(STAMPED);
    const comment = "SELECT col_description(attrelid, attnum) AS comment FROM pg_attribute WHERE attname = '_origin'";
    expect(await rowsOf(stage.to, `${comment} AND attrelid = 'content'::regclass`)).toEqual([
      { comment: FURTHER.comment },
    ]);
  });
});
