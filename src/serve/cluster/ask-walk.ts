import { z } from 'zod';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import type { RunReport } from '../../sync/report.ts';
import type { WalkItem } from '../work-items/work-items.ts';
import type { WorkQueue } from '../work-items/work-queue.ts';

/** The result of a walk item: the report of its run, or the reason if there was none. */
export type WalkResult = { report: RunReport } | { error: { code: string; message: string; hint?: string } };

/** Between two attempts, if the walk that was waited for had begun too early. */
const AGAIN_MS = 500;

const failure = z.object({ code: z.string(), message: z.string(), hint: z.string().optional() });

/** Queues a walk, or joins the same one, and waits for its end. Throws `SyncError` if it could not begin. */
export async function askWalk(queue: WorkQueue, item: WalkItem, signal: AbortSignal): Promise<RunReport> {
  const { id } = await queue.put(item);
  return reportIn(await queue.outcome(id, signal));
}

/** Waits for a walk that begins from now on, a full one for `backfill`. Throws unless it ends as `ok` or `partial`. */
export async function walkNow(
  queue: WorkQueue,
  asked: Pick<WalkItem, 'source' | 'resource' | 'command'>,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  const report = await newWalk(queue, { kind: 'walk', ...asked }, clock, signal);
  if (report.status === 'ok' || report.status === 'partial') return;
  const { code = report.status, message = `the walk of ${asked.resource} ended as ${report.status}` } =
    report.resources[0]?.error ?? {};
  throw new SyncError(code, message, { recovery: 'retry' });
}

/** The report of a walk that begins from now on, a full one for `backfill`. Throws `SyncError` if it could not begin. */
export async function newWalk(queue: WorkQueue, item: WalkItem, clock: Clock, signal: AbortSignal): Promise<RunReport> {
  for (;;) {
    const { id, isUnderWay } = await queue.put(item);
    const report = reportIn(await queue.outcome(id, signal));
    const isOther = isUnderWay || (item.command === 'backfill' && report.resources[0]?.mode !== 'full');
    if (!isOther || report.status === 'interrupted') return report;
    // Another walk was under way or waited already.
    await clock.sleep(AGAIN_MS, signal);
  }
}

function reportIn(result: unknown): RunReport {
  if (isWalkResult(result) && 'report' in result) return result.report;
  const { success, data } = z.object({ error: failure }).safeParse(result);
  const { code, message, hint } = success ? data.error : UNKNOWN;
  throw new SyncError(code, message, { recovery: 'retry', hint });
}

const UNKNOWN: z.infer<typeof failure> = {
  code: 'work_lost',
  message: 'nobody knows any more what came of the walk',
  hint: 'see _sync_runs; the schedule asks for it again',
};

/** Written by a process of ours, of this version or a neighbouring one. */
function isWalkResult(result: unknown): result is WalkResult {
  return z.object({ report: z.object({ status: z.string(), resources: z.array(z.object({})) }) }).safeParse(result)
    .success;
}
