import type { Clock } from '../model/clock.ts';

/** Node's timers wait at most this long and fire at once for more. */
const LONGEST_TIMER_MS = 2_147_483_647;

/** The clock of the machine. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: (ms, signal) =>
    // By hand: Node's own makes an error with its stack for each sleep that is ended, which happens several times per page.
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
        Math.min(Math.max(ms, 0), LONGEST_TIMER_MS),
      );
      signal?.addEventListener('abort', wake, { once: true });
    }),
};
