import { expect, it } from 'vitest';
import { systemClock } from '../../src/observe/system-clock.ts';

it('sleeps for the time in between, and not at all for a time that has passed', async () => {
  const start = systemClock.monotonic();
  await systemClock.sleep(20);
  expect(systemClock.monotonic() - start).toBeGreaterThanOrEqual(19);
  await systemClock.sleep(-1);
});

it('rejects with the reason of the signal, also for a wait longer than a timer allows', async () => {
  const controller = new AbortController();
  const sleeping = systemClock.sleep(Number.MAX_SAFE_INTEGER, controller.signal);
  controller.abort(new Error('enough'));
  await expect(sleeping).rejects.toThrow('enough');
});
