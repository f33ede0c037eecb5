import { describe, expect, it } from 'vitest';
import { DATABASES, type TestDatabase } from '../support/databases.ts';
import { rowsOf } from '../support/copied-cells.ts';
import { journey, type Journey } from '../support/journey.ts';
import { asOther } from '../support/temp-warehouse.ts';

const RELATIONS = {
  'analytics.content_id': 'content.id',
  'content.seo_image_id': 'images.id',
  'content_image_ids.value': 'images.id',
};
const NO_RELATIONS = Object.fromEntries(Object.keys(RELATIONS).map((column) => [column, null]));
const UPDATED = '2026-01-02T00:00:00Z';

async function blog(database: TestDatabase, profile: Record<string, unknown>): Promise<Journey> {
  const stage = await journey({
    database,
    profile,
    sandbox: { generate: { content: 0, images: 0, analytics: 0 } },
  });
  const { store } = stage.sandbox;
  for (const id of [7, 8, 9007199254740991]) store.put('images', { id, alt_text: `image ${id}`, updated_at: UPDATED });
  store.put('content', { id: 1, seo: { image: { id: 7 } }, image_ids: [8, 9007199254740991], updated_at: UPDATED });
  store.put('analytics', { id: 100, content_id: 1, views: 5, updated_at: UPDATED });
  return stage;
}

function answer({ address }: Journey, query: string): Promise<Record<string, unknown>[]> {
  return address.startsWith('postgres')
    ? rowsOf(address, query)
    : Promise.resolve(
        asOther(address.slice('sqlite:'.length), (db) => db.prepare<[], Record<string, unknown>>(query).all()),
      );
}

/** The columns of copied tables that hold the key of another record, as `sync_dictionary` has them. */
async function documented(stage: Journey): Promise<string[]> {
  const rows = await answer(
    stage,
    `SELECT table_name || '.' || column_name AS name FROM sync_dictionary
      WHERE "references" IS NOT NULL AND NOT is_key AND table_name IN ('content', 'analytics', 'content_image_ids')`,
  );
  return rows.map(({ name }) => String(name)).toSorted();
}

const SUMMARY = `SELECT images_count AS images, analytics_count AS readings FROM content_summary`;

describe.for(DATABASES)('relations between records with whole numbers as ids on $name', (database) => {
  it('join in every view, from the first value on', async () => {
    const stage = await blog(database, { relations: RELATIONS });
    expect(await stage.run('backfill')).toMatchObject({ status: 'ok' });
    for (const join of [
      'SELECT i.alt_text FROM content_live c JOIN images_live i ON i.id = c.seo_image_id',
      'SELECT i.alt_text FROM content c JOIN images i ON i.id = c.seo_image_id',
      'SELECT i.alt_text FROM content_history c JOIN images_live i ON i.id = c.seo_image_id',
      'SELECT i.alt_text FROM content_summary c JOIN images_summary i ON i.id = c.seo_image_id',
    ])
      expect([join, await answer(stage, join)]).toEqual([join, [{ alt_text: 'image 7' }]]);
    expect(
      await answer(
        stage,
        'SELECT i.alt_text FROM content_image_ids_live l JOIN images_live i ON i.id = l.value ORDER BY position',
      ),
    ).toEqual([{ alt_text: 'image 8' }, { alt_text: 'image 9007199254740991' }]);
    expect((await answer(stage, SUMMARY)).map((row) => Object.values(row).map(Number))).toEqual([[3, 1]]);
    expect(await documented(stage)).toEqual(Object.keys(RELATIONS).toSorted());
  });

  it('join after relations are added to an existing copy', async () => {
    const stage = await blog(database, { relations: NO_RELATIONS });
    await stage.run('backfill');
    await stage.run('sync');
    stage.setProfile({ relations: RELATIONS });
    expect(await stage.run('sync')).toMatchObject({ status: 'ok' });
    expect(await answer(stage, "SELECT content_id FROM analytics WHERE content_id = '1'")).toEqual([
      { content_id: '1' },
    ]);
    expect((await answer(stage, SUMMARY)).map((row) => Object.values(row).map(Number))).toEqual([[3, 1]]);
    expect(await documented(stage)).toEqual(Object.keys(RELATIONS).toSorted());
    expect(await stage.command('verify')).toMatchObject({ code: 0 });
  });
});
