import type { RateDialect } from '../../source/rate-dialect.ts';

export interface BudgetOptions {
  dialect: RateDialect;
  /** The limit that the service is known to have; `share` counts here as well. */
  requestsPerSecond?: number | undefined;
  /** Part of what the service allows that may be used, above 0 and up to 1. */
  share: number;
  /** Most requests that each process may have under way. */
  concurrency: number;
  /** Most of all processes together; null or absent for as many as each of them may have. */
  concurrencyTotal?: number | null | undefined;
  /** 0 up to 1, for jitter. */
  random: () => number;
}

/** Most requests under way of so many processes together. */
export function mostSlots({ concurrency, concurrencyTotal }: BudgetOptions, processes: number): number {
  return Math.min(concurrency * processes, concurrencyTotal ?? Number.POSITIVE_INFINITY);
}
