import { describe, expect, it } from 'vitest';
import { rowsOf } from '../../support/copied-cells.ts';
import { POSTGRES } from '../../support/databases.ts';
import { asOther } from '../../support/temp-warehouse.ts';
import { copying } from './copying.ts';

describe.skipIf(POSTGRES.missing !== null)('the views of a copy', () => {
  it('stand there as soon as it does, with the columns that they had in their order', async () => {
    const stage = await copying();
    const { file, to } = stage;
    await stage.load(['{"id":"1","title":"one","score":1,"tags":["a"]}']);
    await stage.load(['{"id":"2","title":"two","score":10}']);
    await stage.load(['{"id":"3","title":"three","score":"many","late":true}']);
    await stage.copy();
    const shown = asOther(file, (db) =>
      db
        .prepare(
          "SELECT column_name AS name FROM _sync_view_columns WHERE view_name = 'content_live' ORDER BY position",
        )
        .all(),
    );
    expect(
      await rowsOf(
        to,
        "SELECT attname AS name FROM pg_attribute WHERE attrelid = 'content_live'::regclass AND attnum > 0 ORDER BY attnum",
      ),
    ).toEqual(shown);
    expect(await rowsOf(to, 'SELECT id, title, score::text FROM content_live ORDER BY id')).toEqual([
      { id: '1', title: 'one', score: '1' },
      { id: '2', title: 'two', score: '10' },
      { id: '3', title: 'three', score: 'many' },
    ]);
    expect(await rowsOf(to, 'SELECT value FROM content_tags_live')).toEqual([{ value: 'a' }]);
  });
});
