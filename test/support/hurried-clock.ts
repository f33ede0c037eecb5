import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../../src/model/clock.ts';

/** The machine's clock, `factor` times as fast: what waits for seconds is over in milliseconds, in the same order. */
export function hurriedClock(factor: number): Clock {
  const start = Date.now();
  const elapsed = (): number => performance.now() * factor;
  const origin = elapsed();
  return {
    now: () => start + elapsed() - origin,
    monotonic: elapsed,
    sleep: async (ms, signal) => {
      try {
        await delay(Math.max(ms, 0) / factor, undefined, signal === undefined ? {} : { signal });
      } catch (error) {
        throw signal?.aborted === true ? signal.reason : error;
      }
    },
  };
}

/** A clock that runs with the machine and can be put forward: the service's, in tests of what happens over days. */
export interface PushedClock extends Clock {
  push(ms: number): void;
}

export function pushedClock(start: string): PushedClock {
  let pushed = Date.parse(start) - Date.now();
  return {
    now: () => Date.now() + pushed,
    monotonic: () => performance.timeOrigin + performance.now(),
    sleep: async (ms, signal) => {
      await delay(ms, undefined, signal === undefined ? {} : { signal });
    },
    push: (ms) => {
      pushed += ms;
    },
  };
}
