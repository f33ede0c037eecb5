import { describe, expect, it } from 'vitest';
import { DATABASES } from '../../support/databases.ts';
import { reportStage } from '../../views/reports/report-stage.ts';

const START = '2026-02-01';
const DAY = 86_400_000;

describe.for(DATABASES)('windows older than they are kept, on $name', (database) => {
  it('leave the copy with their versions, are remembered, and are not asked for again', async () => {
    const stage = await reportStage(database, START, '2026-02-08T12:00:00.000Z');
    const keeping = (keep: string) => ({
      content: null,
      images: null,
      analytics: null,
      traffic: { windows: { start: START, keep } },
    });
    await stage.run('backfill', { clock: stage.clock });
    stage.clock.push(DAY);
    expect((await stage.run('sync', { clock: stage.clock })).status).toBe('ok');
    const one = (sql: string) => stage.read((db) => db.prepare(sql).raw().get());
    const all = (sql: string) => stage.read((db) => db.prepare(sql).raw().all());
    const before = await all('SELECT window_start, rows FROM _sync_windows ORDER BY 1');

    stage.setProfile({ resources: keeping('5 days') });
    const run = await stage.run('sync', { clock: stage.clock });
    expect(run.status).toBe('ok');
    expect(run.resources.flatMap(({ warnings = [] }) => warnings).map(({ code }) => code)).toEqual(['windows_dropped']);
    // Of the ninth, the last five days are kept.
    expect(await one('SELECT min(date) FROM traffic')).toEqual(['2026-02-04']);
    expect(await one("SELECT count(*) FROM _sync_versions WHERE id LIKE '%2026-02-03%'")).toEqual([0]);
    expect(await one("SELECT count(*) FROM _sync_deletes WHERE id LIKE '%2026-02-03%'")).toEqual([0]);
    const dropped = await all('SELECT window_start, rows FROM _sync_windows WHERE dropped_at IS NOT NULL ORDER BY 1');
    expect(dropped).toEqual(before.slice(0, 3));

    stage.setProfile({ resources: keeping('30 days') });
    const asked = stage.sandbox.requests.total;
    const again = await stage.run('backfill', { clock: stage.clock });
    expect([again.status, again.resources.flatMap(({ warnings = [] }) => warnings)]).toEqual(['ok', []]);
    expect(stage.sandbox.requests.total - asked).toBe(1);
    expect(await one('SELECT min(date) FROM traffic')).toEqual(['2026-02-04']);
  });
});
