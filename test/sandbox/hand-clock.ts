import type { Clock } from '../../src/model/clock.ts';

/** A clock that stands still until it is wound; sleeping winds it. */
export function handClock(start = Date.UTC(2026, 0, 1)): Clock & { wind(ms: number): void } {
  let now = start;
  return {
    now: () => now,
    monotonic: () => now,
    sleep: async (ms) => {
      now += ms;
    },
    wind: (ms) => {
      now += ms;
    },
  };
}
