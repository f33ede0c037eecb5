import { describe, expect, it } from 'vitest';
import { freshCheckpoint, readCheckpoint, saveCheckpoint } from '../../src/state/checkpoints.ts';
import { beginRun, NO_FIGURES, readRun, saveFigures } from '../../src/state/runs.ts';
import { DATABASES, warehouseOn } from '../support/databases.ts';

const RUN = { run_id: 'r1', resource: 'content', command: 'sync', mode: 'full' } as const;

describe.for(DATABASES)('a statement that is compiled once on $name', (database) => {
  it('takes the values of each row, of fields that came before and of others', async () => {
    const { warehouse } = await warehouseOn(database);
    const { own } = warehouse;
    const content = { ...freshCheckpoint('content', 'a'), walk_pages: 3, walk_position: '/v1?page=4' };
    const images = { ...freshCheckpoint('images', 'b'), cursor: "it's", due_at: '2026-11-20 08:00:00.000' };
    const later = { ...content, walk_pages: 4, walk_position: null };
    const figures = { ...NO_FIGURES, pages: 4, records: 2_000 };
    await warehouse.apply([
      saveCheckpoint(own, content),
      saveCheckpoint(own, images),
      saveCheckpoint(own, later),
      ...beginRun(own, RUN, 0),
      saveFigures(own, RUN, { ...figures, forgotten: 7 }),
      saveFigures(own, RUN, { ...figures, pages: 5, forgotten: undefined }),
    ]);
    expect(await readCheckpoint(own, 'content')).toEqual(later);
    expect(await readCheckpoint(own, 'images')).toEqual(images);
    expect(await readRun(own, RUN)).toMatchObject({ ...figures, pages: 5, forgotten: 7 });
  });

  it('is another one in another database', async () => {
    const [first, second] = [await warehouseOn(database), await warehouseOn(database)];
    for (const [at, { warehouse }] of [first, second].entries())
      await warehouse.apply([saveCheckpoint(warehouse.own, freshCheckpoint('content', `of ${at}`))]);
    expect((await readCheckpoint(first.warehouse.own, 'content'))?.fingerprint).toBe('of 0');
    expect((await readCheckpoint(second.warehouse.own, 'content'))?.fingerprint).toBe('of 1');
  });
});
