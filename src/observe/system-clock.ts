// The `Clock` of the real machine.
import type { Clock } from '../model/clock.ts';

/** Node fires timers with a longer delay at once. */
const MAX_TIMER_MS = 2_147_483_647;

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: (ms, signal) =>
    // Node's own promise timer creates an error with a stack for each aborted sleep, several times per page.
    new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const wake = (): void => {
        clearTimeout(timer);
        reject(signal?.reason);
      };
      const timer = setTimeout(
        () => {
          signal?.removeEventListener('abort', wake);
          resolve();
        },
        Math.min(Math.max(ms, 0), MAX_TIMER_MS),
      );
      signal?.addEventListener('abort', wake, { once: true });
    }),
};
