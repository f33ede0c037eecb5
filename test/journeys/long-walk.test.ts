import { describe, expect, it } from 'vitest';
import { differences } from '../support/compare-copy.ts';
import { journey, type Journey } from '../support/journey.ts';

/** A backfill stopped after its first page, whose records are then changed where the walk will not come by again. */
async function changedBehindTheWalk(): Promise<Journey> {
  const stage = await journey({
    sandbox: { generate: { content: 40 }, sort: 'id' },
    profile: { resources: { content: { page: { size: 10 } } } },
    source: { resources: ['content'] },
  });
  expect((await stage.run('backfill', { stopAfter: 1 })).status).toBe('interrupted');
  const passed = await stage.column<string>('SELECT id FROM content');
  expect(passed).toHaveLength(10);
  for (const id of passed) {
    stage.sandbox.store.put('content', { id, title: 'changed', updated_at: new Date().toISOString() });
  }
  return stage;
}

function unlike(stage: Journey): Promise<number> {
  return stage.read((db) => differences(db, stage.sandbox.store, { resources: ['content'] }).length);
}

describe('a full walk that is taken up again', () => {
  it('brings in what changed behind its back, where it has taken longer than the look-back', async () => {
    const stage = await changedBehindTheWalk();
    await stage.write("UPDATE _sync_checkpoints SET walk_started_at = '2026-01-01 00:00:00.000'");
    stage.sandbox.requests.clear();
    const report = await stage.run('backfill');
    expect(report).toMatchObject({ status: 'ok', resources: [{ mode: 'full', inserted: 30, updated: 10 }] });
    expect(await unlike(stage)).toBe(0);
    const asked = stage.sandbox.requests.entries().filter(({ path }) => path.includes('updated_since='));
    expect(asked.length).toBeGreaterThan(0);
  });

  it('leaves it to the next sync, where that starts from before the walk anyway', async () => {
    const stage = await changedBehindTheWalk();
    const report = await stage.run('backfill');
    expect(report).toMatchObject({ status: 'ok', resources: [{ inserted: 30, updated: 0 }] });
    expect(await unlike(stage)).toBeGreaterThan(0);
    await stage.run('sync');
    expect(await unlike(stage)).toBe(0);
  });
});
