/** Time as a dependency, so that tests can control it. */
export interface Clock {
  /** Epoch milliseconds of the wall clock. */
  now(): number;
  /** Monotonic milliseconds, for measuring and waiting. */
  monotonic(): number;
  /** Resolves after `ms` of monotonic time; rejects with the signal's reason if it is aborted first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}
