/** How long to wait between attempts when the service did not say; milliseconds. */
export interface BackoffLimits {
  base: number;
  cap: number;
}

export const BACKOFF: BackoffLimits = { base: 500, cap: 30_000 };

/** Retries in a row without any success in between, over all requests of one client. */
const QUOTA = 50;

/**
 * The wait after the given number of failures (1 or more): doubling from `base` to `cap`, of which a random half to
 * whole is taken, so that requests which failed together do not come back together. `random` gives 0 <= x < 1.
 * Waits that the service names are the governor's and get no jitter.
 */
export function backoffDelay(failures: number, limits: BackoffLimits, random: () => number): number {
  const whole = Math.min(limits.cap, limits.base * 2 ** Math.min(failures - 1, 30));
  return Math.round(whole * (0.5 + random() / 2));
}

/** Bounds what a full outage costs: retries draw from it, successes give back. */
export interface RetryQuota {
  /** False when the quota is used up: the request fails now instead of adding to the outage. */
  take(): boolean;
  refund(): void;
}

export function createRetryQuota(capacity = QUOTA): RetryQuota {
  let left = capacity;
  return {
    take() {
      if (left === 0) return false;
      left -= 1;
      return true;
    },
    refund() {
      left = Math.min(capacity, left + 1);
    },
  };
}
