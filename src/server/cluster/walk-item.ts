import { z } from 'zod';
import type { App } from '../app.ts';
import type { Clock } from '../../model/clock.ts';
import { errorReport, SyncError } from '../../model/errors.ts';
import { scrubOwn } from '../../observe/scrub.ts';
import { readCheckpoint } from '../../database/state/checkpoints.ts';
import { readPauses } from '../../database/state/server-state.ts';
import type { RunReport, RunWatcher } from '../../sync/report.ts';
import type { StoredSuccess } from '../schedule/due.ts';
import { KnownPauses } from '../controls/known-pauses.ts';
import type { WalkItem, WorkEnd } from '../work-items/work-items.ts';
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

interface WalkParts {
  app: App;
  clock: Clock;
  watcher: RunWatcher;
  secrets: readonly string[];
}

/** By then another process may have released the resource. */
const RETRY_MS = 3_000;
/** Another process owns the resource for now: the item goes back. */
const OWNED_ELSEWHERE: ReadonlySet<string> = new Set(['lease_held', 'lease_lost']);

/** Walks a resource, unless another walk has made it fresh since the item was queued. */
export async function doWalk(
  { app, clock, watcher, secrets }: WalkParts,
  item: WalkItem,
  signal: AbortSignal,
): Promise<WorkEnd<WalkResult>> {
  const pauses = new KnownPauses(() => readPauses(app.warehouse.own), clock);
  try {
    if (await pauses.isPaused(item.resource)) return done({ report: withoutWalk(item, 'interrupted') });
    if (isFresh(item, await readCheckpoint(app.warehouse.own, item.resource)))
      return done({ report: withoutWalk(item, 'ok') });
    const { resource, command } = item;
    // By name, so that a scheduled full walk is one even if an earlier backfill was interrupted.
    const asked = { command: { [resource]: command }, resources: [resource], restart: false };
    const walk = (until: AbortSignal): Promise<RunReport> => app.sync({ ...asked, signal: until, watcher });
    const report = await pauses.unlessPaused(resource, signal, walk);
    // A walk that was paused goes to nobody: it goes on once it is resumed.
    const isPaused = report.status === 'interrupted' && !signal.aborted && (await pauses.isPaused(resource));
    return isPaused ? done({ report }) : endOf(report);
  } catch (error) {
    if (error instanceof SyncError && OWNED_ELSEWHERE.has(error.code)) return { is: 'back', afterMs: RETRY_MS };
    if (signal.aborted) return { is: 'back', afterMs: 0 };
    return done(failedWith(error, secrets));
  }
}

/** The result of a walk that did not begin. */
export function failedWith(error: unknown, secrets: readonly string[]): WalkResult {
  return { error: errorReport(error, (text) => scrubOwn(text, secrets)) };
}

function isFresh({ command, seen }: WalkItem, stored: StoredSuccess | null): boolean {
  if (seen === undefined) return false;
  return successOf(command, stored) !== seen;
}

/** The stored success that a command renews. */
export function successOf(command: WalkItem['command'], stored: StoredSuccess | null): string | null {
  return (command === 'backfill' ? stored?.last_full_at : stored?.last_success_at) ?? null;
}

function endOf(report: RunReport): WorkEnd<WalkResult> {
  if (report.status === 'interrupted') return { is: 'back', afterMs: 0 };
  const isOwnedElsewhere = report.resources.some(({ error }) => error !== undefined && OWNED_ELSEWHERE.has(error.code));
  return isOwnedElsewhere ? { is: 'back', afterMs: RETRY_MS } : done({ report });
}

function done(result: WalkResult): WorkEnd<WalkResult> {
  return { is: 'done', result };
}

/** The report where no walk began: the resource is paused, or nothing is left to do. */
function withoutWalk({ source }: WalkItem, status: 'interrupted' | 'ok'): RunReport {
  return { source, run_id: '', status, resources: [] };
}
