import type { App } from '../../app.ts';
import { SyncError } from '../../model/errors.ts';
import { unerased } from '../../state/forgotten.ts';
import type { CliContext } from '../command/context.ts';

const LOOK_MS = 500;
/** A walk of another process may take hours. */
const PATIENCE_MS = 10 * 60_000;

/**
 * Erases what was asked for. Where another process owns the resource, that one does it (a `serve`, within seconds) or
 * ends; this one looks again until then. Returns false if it still waits when the command is interrupted, or after ten
 * minutes.
 */
export async function eraseWhenFree(
  { clock, signal, stderr }: Pick<CliContext, 'clock' | 'signal' | 'stderr'>,
  app: App,
  resource: string,
): Promise<boolean> {
  const until = clock.monotonic() + PATIENCE_MS;
  for (let isTold = false; ;) {
    try {
      await app.eraseForgotten(resource, signal);
    } catch (error) {
      if (!(error instanceof SyncError) || error.code !== 'lease_held') throw error;
      if (!isTold)
        stderr.write(`content-sync: ${error.message}: it erases the records, or this command does once it has ended\n`);
      isTold = true;
    }
    if ((await unerased(app.warehouse.own, resource)).length === 0) return true;
    if (signal.aborted || clock.monotonic() >= until) return false;
    await clock.sleep(LOOK_MS);
  }
}
