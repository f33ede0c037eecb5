// Syncs that processes on one Postgres share as items of a queue. Example: the schedule of one process finds a resource due;
// it queues the sync and waits for the report (`queueScan`), while another process takes the item (`performScan`).
import { z } from 'zod';
import { readCheckpoint } from '../../database/state/checkpoints.ts';
import type { Clock } from '../../model/clock.ts';
import { errorReport, SyncError } from '../../model/errors.ts';
import { scrubOwn } from '../../observe/scrub.ts';
import type { RunReport, RunWatcher } from '../../sync/report.ts';
import type { App } from '../app.ts';
import { PausedResources } from '../controls/paused-resources.ts';
import type { StoredSuccess } from '../schedule/due.ts';
import type { ItemEnd, ScanItem } from '../work-items/work-items.ts';
import type { WorkQueue } from '../work-items/work-queue.ts';

/** The result of a scan item: the report of its run, or why there was none. */
export type ScanItemResult = { report: RunReport } | { error: { code: string; message: string; hint?: string } };

/** Checks a result of the queue, because a process of another version may have stored it. */
const storedResult = z.union([
  z.object({
    report: z.custom<RunReport>(
      (report) => z.object({ status: z.string(), resources: z.array(z.object({})) }).safeParse(report).success,
    ),
  }),
  z.object({ error: z.object({ code: z.string(), message: z.string(), hint: z.string().optional() }) }),
]);

const RESULT_LOST = {
  code: 'serve_missing',
  message: 'the queue no longer has the result of the sync',
  hint: 'see _sync_runs; the schedule repeats it when it is due',
};

/** Pause before a sync is queued again, because the one that was queued already does not suffice. */
const REQUEUE_MS = 500;

/** Queues a sync, unless the same one is queued, and waits for its report. Throws `SyncError` if it could not begin. */
export async function queueScan(queue: WorkQueue, item: ScanItem, signal: AbortSignal): Promise<RunReport> {
  const { id } = await queue.put(item);
  return parseResult(await queue.outcome(id, signal));
}

/**
 * Queues a sync that begins from now on, and waits for its report. If the queue has the same item already, that one may
 * have begun before, or be an incremental sync in place of a `backfill`: then another one follows. Throws as `queueScan`.
 */
export async function queueNewScan(
  queue: WorkQueue,
  item: ScanItem,
  clock: Clock,
  signal: AbortSignal,
): Promise<RunReport> {
  for (;;) {
    const { id, isStarted } = await queue.put(item);
    const report = parseResult(await queue.outcome(id, signal));
    const isIncremental = report.resources[0]?.mode !== 'full';
    const isEnough = !isStarted && !(item.command === 'backfill' && isIncremental);
    if (isEnough || report.status === 'interrupted') return report;
    await clock.sleep(REQUEUE_MS, signal);
  }
}

function parseResult(result: unknown): RunReport {
  const { data = { error: RESULT_LOST } } = storedResult.safeParse(result);
  if ('report' in data) return data.report;
  const { code, message, hint } = data.error;
  throw new SyncError(code, message, { recovery: 'retry', hint });
}

interface ScanDependencies {
  app: App;
  clock: Clock;
  watcher: RunWatcher;
  secrets: readonly string[];
}

/** Codes of errors that mean that another process has the lease of the resource. */
const LEASE_ERRORS: ReadonlySet<string> = new Set(['lease_held', 'lease_lost']);
/** The item returns to the queue for this time, in which the other process may release the lease. */
const LEASE_RETRY_MS = 3_000;

/** Syncs the resource of an item, unless another sync has succeeded since the item was queued (`seen`). */
export async function performScan(
  { app, clock, watcher, secrets }: ScanDependencies,
  { source, resource, command, seen, isAsked }: ScanItem,
  signal: AbortSignal,
): Promise<ItemEnd<ScanItemResult>> {
  const noRun = { source, run_id: '', resources: [] };
  const pauses = new PausedResources(app.warehouse, clock);
  try {
    if (await pauses.isPaused(resource)) return { is: 'done', result: { report: { ...noRun, status: 'interrupted' } } };
    const stored = await readCheckpoint(app.warehouse.own, resource);
    const isFresh = seen !== undefined && successTime(command, stored) !== seen;
    if (isFresh) return { is: 'done', result: { report: { ...noRun, status: 'ok' } } };
    if (isAsked === true) await app.retry(false);
    const report = await pauses.syncUnlessPaused(app, resource, command, watcher, signal);
    const isInterrupted = report.status === 'interrupted';
    // A paused sync is done: resuming the resource queues another one.
    const isPaused = isInterrupted && !signal.aborted && (await pauses.isPaused(resource));
    if (isInterrupted && !isPaused) return { is: 'returned', afterMs: 0 };
    const hasNoLease = report.resources.some(({ error }) => LEASE_ERRORS.has(error?.code ?? ''));
    return hasNoLease ? { is: 'returned', afterMs: LEASE_RETRY_MS } : { is: 'done', result: { report } };
  } catch (error) {
    if (error instanceof SyncError && LEASE_ERRORS.has(error.code)) return { is: 'returned', afterMs: LEASE_RETRY_MS };
    if (signal.aborted) return { is: 'returned', afterMs: 0 };
    return { is: 'done', result: toErrorResult(error, secrets) };
  }
}

export function toErrorResult(error: unknown, secrets: readonly string[]): ScanItemResult {
  return { error: errorReport(error, (text) => scrubOwn(text, secrets)) };
}

/** Returns when the last sync of this kind succeeded: a full one for `backfill`. */
export function successTime(command: ScanItem['command'], stored: StoredSuccess | null): string | null {
  return (command === 'backfill' ? stored?.last_full_at : stored?.last_success_at) ?? null;
}
