import { setTimeout as wait } from 'node:timers/promises';
import type { Clock } from '../model/clock.ts';

const MONOTONIC_ORIGIN = performance.timeOrigin;

/** The machine's own clock. `monotonic` counts from the epoch as well, so that both can be compared with each other. */
export const machineClock: Clock = {
  now: () => Date.now(),
  monotonic: () => MONOTONIC_ORIGIN + performance.now(),
  sleep: async (ms, signal) => {
    await wait(ms, undefined, signal === undefined ? {} : { signal });
  },
};

/** The service's own clock: the machine's, put ahead (or behind, when negative) by `skewMs`. */
export function skewedClock(clock: Clock, skewMs: number): Clock {
  if (skewMs === 0) return clock;
  return {
    now: () => clock.now() + skewMs,
    monotonic: () => clock.monotonic(),
    sleep: (ms, signal) => clock.sleep(ms, signal),
  };
}
