import type { SharedBudget } from '../../../src/http/rate-limit/budget-store.ts';
import type { HandClock } from '../../support/hand-clock.ts';

/** One row that many share, with the delays of a database; its clock is `ahead` milliseconds before theirs. */
export interface MemoryRow extends SharedBudget {
  /** Statements so far. */
  readonly counts: { reads: number; swaps: number };
  /** As it is stored. */
  readonly text: () => string;
}

export function memoryRow(clock: HandClock, delay: () => number, ahead = 0): MemoryRow {
  let row: { state: string | null; version: number } = { state: null, version: 0 };
  const counts = { reads: 0, swaps: 0 };
  const now = () => clock.now() + ahead;
  return {
    counts,
    text: () => row.state ?? '{}',
    read: async () => {
      counts.reads += 1;
      await clock.sleep(delay());
      const seen = { ...row, now: now() };
      await clock.sleep(delay());
      return seen;
    },
    swap: async (version, state) => {
      counts.swaps += 1;
      await clock.sleep(delay());
      const isStored = row.version === version;
      if (isStored) row = { state, version: version + 1 };
      const seen = { ...row, isStored, now: now() };
      await clock.sleep(delay());
      return seen;
    },
  };
}
