import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../model/clock.ts';

/** Node's timers wait at most this long and fire at once for more. */
const LONGEST_TIMER_MS = 2_147_483_647;

/** The clock of the machine. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: async (ms, signal) => {
    try {
      await delay(Math.min(Math.max(ms, 0), LONGEST_TIMER_MS), undefined, signal ? { signal } : {});
    } catch (error) {
      throw signal?.aborted ? signal.reason : error;
    }
  },
};
