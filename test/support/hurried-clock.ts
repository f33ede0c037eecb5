import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../../src/model/clock.ts';
import { systemClock } from '../../src/observe/system-clock.ts';

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

/** The machine's clock, but for what it shows: for a service whose time the test sets, and that ours agrees with. */
export function clockShowing(now: () => number): Clock {
  return { ...systemClock, now };
}

/** A clock that runs with the machine, or faster, and can be put forward: for tests of what happens over days. */
export interface PushedClock extends Clock {
  push(ms: number): void;
}

export function pushedClock(start: string, factor = 1): PushedClock {
  const clock = hurriedClock(factor);
  let pushed = Date.parse(start) - clock.now();
  return {
    ...clock,
    now: () => clock.now() + pushed,
    push: (ms) => {
      pushed += ms;
    },
  };
}
