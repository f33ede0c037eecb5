import { describe, expect, it, onTestFinished } from 'vitest';
import { readCheckpoint } from '../../src/state/checkpoints.ts';
import { createScheduler } from '../../src/trigger/schedule/scheduler.ts';
import { differences } from '../support/compare-copy.ts';
import { hurriedClock } from '../support/hurried-clock.ts';
import { journey, type Journey } from '../support/journey.ts';

const SCHEDULE = { incremental: '* * * * *', full: '17 3 * * *', timezone: 'UTC', jitter: 20_000, resources: {} };
const QUIET = { started: () => undefined, page: () => undefined, ended: () => undefined };

/** The schedule of a source as `serve` has it, on a clock that runs a hundred times as fast. */
async function scheduled(blog: Journey) {
  const clock = hurriedClock(100);
  const app = await blog.open(clock);
  const failures: unknown[] = [];
  const scheduler = createScheduler({
    source: 'blog',
    resources: app.source.profile.resources,
    schedule: SCHEDULE,
    clock,
    checkpoints: (resource) => readCheckpoint(app.warehouse.own, resource),
    isPaused: async () => false,
    run: (resource, command, signal) =>
      app.sync({ command: { [resource]: command }, resources: [resource], restart: false, signal, watcher: QUIET }),
    failed: (_, error) => failures.push(error),
  });
  const stop = async (): Promise<void> => {
    await scheduler.stop();
    await app.close();
  };
  onTestFinished(() => scheduler.stop());
  return { scheduler, failures, stop };
}

const runsOf = (blog: Journey, resource: string): Promise<{ command: string; mode: string; status: string }[]> =>
  blog.read((db) =>
    db
      .prepare<[string], { command: string; mode: string; status: string }>(
        'SELECT command, mode, status FROM _sync_runs WHERE resource = ? ORDER BY started_at, run_id',
      )
      .all(resource),
  );

const put = (blog: Journey, title: string): void =>
  blog.sandbox.store.put('content', { id: title.toLowerCase(), title, updated_at: new Date().toISOString() });

describe('a schedule', () => {
  it('copies an empty warehouse whole, then brings in what changes, and is asked for what cannot wait', async () => {
    const blog = await journey({ sandbox: { generate: { content: 120, images: 30, analytics: 60 } } });
    const { scheduler, failures, stop } = await scheduled(blog);
    scheduler.start();
    const rows = (): Promise<unknown> => blog.read((db) => db.prepare('SELECT count(*) FROM content').pluck().get());
    await expect.poll(() => scheduler.figures().every(({ last }) => last !== null), { timeout: 30_000 }).toBe(true);
    expect((await runsOf(blog, 'content'))[0]).toEqual({ command: 'backfill', mode: 'full', status: 'ok' });
    put(blog, 'Written while it ran');
    await expect.poll(rows, { timeout: 30_000 }).toBe(121);
    put(blog, 'Urgent');
    await scheduler.requestWalk('content', 'sync');
    expect(await rows()).toBe(122);
    await stop();
    expect(failures).toEqual([]);
    expect(await blog.read((db) => differences(db, blog.sandbox.store))).toEqual([]);
    for (const run of (await runsOf(blog, 'content')).slice(1))
      expect(run).toEqual({ command: 'sync', mode: 'incremental', status: 'ok' });
  });

  it('F152 keeps the others fresh where one resource fails, and stops in the middle of a walk', async () => {
    const blog = await journey({ sandbox: { generate: { content: 2_000, images: 30, analytics: 60 }, latency: 30 } });
    blog.sandbox.faults.add({ fault: 'status', status: 403, resource: 'images' });
    const { scheduler, failures, stop } = await scheduled(blog);
    scheduler.start();
    const figures = (name: string) => scheduler.figures().find(({ resource }) => resource === name);
    await expect.poll(() => figures('images')?.failures, { timeout: 30_000 }).toBe(1);
    await expect.poll(() => figures('analytics')?.last?.status, { timeout: 30_000 }).toBe('ok');
    await stop();
    expect(failures).toEqual([]);
    expect(await runsOf(blog, 'images')).toEqual([{ command: 'backfill', mode: 'full', status: 'failed' }]);
    expect((await runsOf(blog, 'content')).map(({ status }) => status)).toSatisfy(
      (ends: string[]) => !ends.includes('running'),
    );
  });
});
