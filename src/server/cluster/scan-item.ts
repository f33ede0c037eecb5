// A queued sync of one resource: queueing it and waiting for its report, and running it.
import { z } from 'zod';
import { readCheckpoint } from '../../database/state/checkpoints.ts';
import type { Clock } from '../../model/clock.ts';
import { errorReport, SyncError } from '../../model/errors.ts';
import { scrubOwn } from '../../observe/scrub.ts';
import type { RunReport, RunWatcher } from '../../sync/report.ts';
import type { App } from '../app.ts';
import { PausedResources } from '../controls/paused-resources.ts';
import type { StoredSuccess } from '../schedule/due.ts';
import type { ScanItem, ItemEnd } from '../work-items/work-items.ts';
import type { WorkQueue } from '../work-items/work-queue.ts';

/** The result of a scan item: the report of its run, or why there was none. */
export type ScanItemResult = { report: RunReport } | { error: { code: string; message: string; hint?: string } };

/** As a process of this version or another one wrote it. */
const storedResult = z.union([
  z.object({
    report: z.custom<RunReport>(
      (report) => z.object({ status: z.string(), resources: z.array(z.object({})) }).safeParse(report).success,
    ),
  }),
  z.object({ error: z.object({ code: z.string(), message: z.string(), hint: z.string().optional() }) }),
]);

const RESULT_LOST = {
  code: 'work_lost',
  message: 'the result of the sync is not known any more',
  hint: 'see _sync_runs; the schedule repeats it when it is due',
};

/** Pause before another attempt if the queued sync had begun before the request. */
const REQUEUE_MS = 500;

/** Queues a sync, or joins the same one, and waits for its end. Throws `SyncError` if it could not begin. */
export async function queueScan(queue: WorkQueue, item: ScanItem, signal: AbortSignal): Promise<RunReport> {
  const { id } = await queue.put(item);
  return parseResult(await queue.outcome(id, signal));
}

/** The report of a sync that begins from now on, a full one for `backfill`. Throws `SyncError` if it could not begin. */
export async function queueNewScan(
  queue: WorkQueue,
  item: ScanItem,
  clock: Clock,
  signal: AbortSignal,
): Promise<RunReport> {
  for (;;) {
    const { id, isStarted } = await queue.put(item);
    const report = parseResult(await queue.outcome(id, signal));
    const isOther = isStarted || (item.command === 'backfill' && report.resources[0]?.mode !== 'full');
    if (!isOther || report.status === 'interrupted') return report;
    await clock.sleep(REQUEUE_MS, signal);
  }
}

function parseResult(result: unknown): RunReport {
  const { data = { error: RESULT_LOST } } = storedResult.safeParse(result);
  if ('report' in data) return data.report;
  const { code, message, hint } = data.error;
  throw new SyncError(code, message, { recovery: 'retry', hint });
}

interface ScanItemParts {
  app: App;
  clock: Clock;
  watcher: RunWatcher;
  secrets: readonly string[];
}

/** Pause before another attempt, by which the other process may have released the resource. */
const RETRY_MS = 3_000;
/** Another process owns the resource for now: the item returns to the queue. */
const OWNED_ELSEWHERE: ReadonlySet<string> = new Set(['lease_held', 'lease_lost']);

/** Syncs a resource, unless another sync has made it fresh since the item was queued. */
export async function performScan(
  { app, clock, watcher, secrets }: ScanItemParts,
  { source, resource, command, seen, isAsked }: ScanItem,
  signal: AbortSignal,
): Promise<ItemEnd<ScanItemResult>> {
  const skipped = (status: RunReport['status']): ItemEnd<ScanItemResult> => ({
    is: 'done',
    result: { report: { source, run_id: '', status, resources: [] } },
  });
  const pauses = new PausedResources(app.warehouse, clock);
  try {
    if (await pauses.isPaused(resource)) return skipped('interrupted');
    const stored = await readCheckpoint(app.warehouse.own, resource);
    if (seen !== undefined && successOf(command, stored) !== seen) return skipped('ok');
    if (isAsked === true) await app.retry(false);
    const report = await pauses.syncUnlessPaused(app, resource, command, watcher, signal);
    const isInterrupted = report.status === 'interrupted';
    // A paused sync is done: resuming the resource queues another one.
    const isPaused = isInterrupted && !signal.aborted && (await pauses.isPaused(resource));
    if (isInterrupted && !isPaused) return { is: 'returned', afterMs: 0 };
    const isOwnedElsewhere = report.resources.some(({ error }) => OWNED_ELSEWHERE.has(error?.code ?? ''));
    return isOwnedElsewhere ? { is: 'returned', afterMs: RETRY_MS } : { is: 'done', result: { report } };
  } catch (error) {
    if (error instanceof SyncError && OWNED_ELSEWHERE.has(error.code)) return { is: 'returned', afterMs: RETRY_MS };
    if (signal.aborted) return { is: 'returned', afterMs: 0 };
    return { is: 'done', result: failedWith(error, secrets) };
  }
}

export function failedWith(error: unknown, secrets: readonly string[]): ScanItemResult {
  return { error: errorReport(error, (text) => scrubOwn(text, secrets)) };
}

/** The stored success that a command renews. */
export function successOf(command: ScanItem['command'], stored: StoredSuccess | null): string | null {
  return (command === 'backfill' ? stored?.last_full_at : stored?.last_success_at) ?? null;
}
