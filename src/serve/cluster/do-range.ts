import type { App } from '../../app.ts';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import { readPauses } from '../../state/pauses.ts';
import { KnownPauses } from '../controls/known-pauses.ts';
import type { RangeItem, WorkEnd } from '../work-items/work-items.ts';

/** By then the lease of a process that is gone may have run out. */
const RETRY_MS = 2_000;

/** Walks one range of a walk that some process leads; that one finds in the database what came of it. */
export async function doRange(
  { app, clock }: { app: App; clock: Clock },
  { resource, range }: RangeItem,
  signal: AbortSignal,
): Promise<WorkEnd<null>> {
  const pauses = new KnownPauses(() => readPauses(app.warehouse.own), clock);
  try {
    if (await pauses.isPaused(resource)) return { is: 'done', result: null };
    await pauses.unlessPaused(resource, signal, (until) => app.walkRange({ resource, range }, until));
    return { is: 'done', result: null };
  } catch (error) {
    if (signal.aborted) return { is: 'back', afterMs: 0 };
    if (!(error instanceof SyncError)) throw error;
    // The one who leads asks for it again.
    return error.code === 'lease_held' ? { is: 'back', afterMs: RETRY_MS } : { is: 'done', result: null };
  }
}
