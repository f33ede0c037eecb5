import { expect, it, onTestFinished } from 'vitest';
import { HandClock } from '../../support/hand-clock.ts';
import { play, walkedAt, type PlayOptions } from './play.ts';

const MINUTE = 60_000;

function stage(course?: PlayOptions['course']) {
  const clock = new HandClock();
  const resources = { content: walkedAt(clock.now()) };
  const played = play({ clock, schedule: {}, resources, ...(course === undefined ? {} : { course }) });
  onTestFinished(() => played.scheduler.stop());
  played.scheduler.start();
  return { clock, ...played };
}

it('walks at once when a person asks, and answers with that one walk, whatever it comes to', async () => {
  const { clock, runs, scheduler } = stage(() => ({ status: 'failed', code: 'auth_failed' }));
  await clock.advance(MINUTE);
  expect(runs).toEqual([]);
  const failed = scheduler.scanNow('content', 'sync');
  await clock.advance(5_000);
  expect(await failed).toMatchObject({ status: 'failed' });
  // The wait of an hour after a refusal holds for the schedule, not for a person.
  const again = scheduler.scanNow('content', 'sync');
  await clock.advance(5_000);
  expect(await again).toMatchObject({ status: 'failed' });
  expect(runs).toHaveLength(2);
  expect(scheduler.states()).toMatchObject([{ failures: 2 }]);
  scheduler.retry(['content']);
  expect(scheduler.states()).toMatchObject([{ failures: 0 }]);
  await expect(scheduler.scanNow('nothing', 'sync')).rejects.toMatchObject({ code: 'unknown_resource' });
});

it('joins a full walk under way, and comes behind any other', async () => {
  const { clock, runs, scheduler } = stage(() => ({ lasts: MINUTE }));
  const first = scheduler.scanNow('content', 'backfill');
  await clock.advance(1_000);
  const [joined, behind] = [scheduler.scanNow('content', 'backfill'), scheduler.scanNow('content', 'sync')];
  await clock.advance(MINUTE);
  expect(await joined).toBe(await first);
  expect(runs.map(({ command }) => command)).toEqual(['backfill', 'sync']);
  await clock.advance(2 * MINUTE);
  expect(await behind).not.toBe(await first);
});

it('ends the walk of a resource that is paused, and begins none until it is resumed', async () => {
  const { clock, paused, runs, scheduler } = stage(() => ({ lasts: MINUTE }));
  const asked = scheduler.scanNow('content', 'backfill');
  await clock.advance(1_000);
  paused.add('content');
  await scheduler.applyPauses();
  await clock.advance(1_000);
  expect(await asked).toMatchObject({ status: 'interrupted' });
  const waiting = scheduler.requestScan('content', 'sync');
  await clock.advance(10 * MINUTE);
  expect(runs).toHaveLength(1);
  expect(scheduler.states()).toMatchObject([{ nextAt: null, overdueAt: null, running: null }]);
  paused.clear();
  await scheduler.applyPauses();
  await clock.advance(2 * MINUTE);
  await waiting;
  expect(runs).toHaveLength(2);
});
