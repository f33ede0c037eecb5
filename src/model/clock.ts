/** Time as a dependency, so that a test can wind it by hand. */
export interface Clock {
  /** Epoch milliseconds of the wall clock. */
  now(): number;
  /** Milliseconds that only ever grow; for measuring and waiting. */
  monotonic(): number;
  /** Resolves after `ms` of monotonic time; rejects with the signal's reason when it is aborted first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}
