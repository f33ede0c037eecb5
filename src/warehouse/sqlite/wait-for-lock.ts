import type { Clock } from '../../model/clock.ts';
import { isBusy, sqliteError } from './errors.ts';

/**
 * How long one attempt may stall the event loop for another program's lock. SQLite waits by sleeping in our only
 * thread, so this is short and the real patience is ours.
 */
export const BUSY_TIMEOUT_MS = 50;
const PATIENCE_MS = 60_000;
const PAUSE_MS = 50;

/** Runs `work` again and again while another program holds the lock; everything that it throws is a `SyncError`. */
export type Patiently = <T>(work: () => T | Promise<T>) => Promise<T>;

export function patience(clock: Clock, file: string): Patiently {
  return async (work) => {
    const deadline = clock.monotonic() + PATIENCE_MS;
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (!isBusy(error) || clock.monotonic() > deadline) throw sqliteError(error, file);
      }
      await clock.sleep(PAUSE_MS);
    }
  };
}
