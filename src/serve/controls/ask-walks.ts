import { sleepOrAbort } from '../../model/waiting.ts';
import type { SyncCommand } from '../../sync/plan.ts';
import { overallStatus, type RunReport } from '../../sync/report.ts';
import { parentOf } from '../../source/request-fields.ts';
import type { SourceSettings } from '../../settings/settings.ts';
import type { Scheduler } from '../../trigger/schedule/scheduler.ts';
import { done, refused } from './answers.ts';
import type { ControlledSource } from './controlled-source.ts';
import type { ControlAnswer, ControlRequest } from './control-request.ts';
import { chosen, named, pausedAmong, pausesOf, whilePaused } from './source-controls.ts';

/** The answer to one who asked for walks; `report` is null if none was begun. */
export interface AskedWalks {
  answer: ControlAnswer;
  /** Settles with the walks. */
  report: Promise<RunReport> | null;
}

const COMMANDS: Readonly<Record<'incremental' | 'full', SyncCommand>> = { incremental: 'sync', full: 'backfill' };
/** A process that has just started opens its sources within moments. */
const PATIENCE_MS = 15_000;
const LOOK_MS = 100;

/** Begins walks of a source, or of one resource of it, whatever is due. Throws what the warehouse throws. */
export async function askWalks(
  on: ControlledSource,
  asked: Extract<ControlRequest, { action: 'sync' }>,
): Promise<AskedWalks> {
  const pauses = await pausesOf(on);
  const resources = chosen(on, asked).filter((resource) => !pauses.has(resource));
  const paused = pausedAmong(chosen(on, asked), pauses);
  if (paused !== null && resources.length === 0) return { answer: whilePaused(on, paused), report: null };
  const scheduler = await opened(on);
  if (scheduler === null) {
    const hint = 'see /status.json or the log for why, and ask again';
    return {
      answer: refused('warehouse_opening', `${named(on, asked)}: the source is not open yet`, hint),
      report: null,
    };
  }
  const command = COMMANDS[asked.mode];
  const running = scheduler.figures().filter((each) => each.running !== null && resources.includes(each.resource));
  const behind = running.filter((each) => command === 'sync' || each.running?.command !== 'backfill');
  const answer = done(`${named(on, asked)}: ${beginning(asked.mode, resources, running.length, behind.length)}`);
  return { answer, report: together(on.source, resources, (resource) => scheduler.walkNow(resource, command)) };
}

async function opened(on: ControlledSource): Promise<Pick<Scheduler, 'walkNow' | 'figures'> | null> {
  const until = on.clock.monotonic() + PATIENCE_MS;
  for (;;) {
    const scheduler = on.scheduler();
    if (scheduler !== null || on.clock.monotonic() >= until) return scheduler;
    await sleepOrAbort(on.clock, LOOK_MS);
  }
}

function beginning(
  mode: 'incremental' | 'full',
  resources: readonly string[],
  running: number,
  behind: number,
): string {
  const what = resources.length === 1 ? `a walk (${mode})` : `walks (${mode}) of ${resources.join(', ')}`;
  if (behind > 0) return `${what} as soon as the walk under way has ended`;
  return running > 0 ? `${what}; the full walk under way is that one` : `${what} now`;
}

/** Walks side by side, as one report; a resource whose listings are another one's rows comes behind that one. */
export async function together(
  source: Pick<SourceSettings, 'name' | 'profile'>,
  resources: readonly string[],
  walk: (resource: string) => Promise<RunReport>,
): Promise<RunReport> {
  const begun = new Map<string, Promise<RunReport>>();
  const begin = (resource: string): Promise<RunReport> => {
    const parent = parentOf(source.profile.resources[resource]);
    const before = parent !== null && resources.includes(parent) ? (begun.get(parent) ?? begin(parent)) : null;
    const report = begun.get(resource) ?? (before === null ? walk(resource) : behind(before, () => walk(resource)));
    begun.set(resource, report);
    return report;
  };
  const reports = await Promise.all(resources.map(begin));
  return merged(source.name, reports);
}

async function behind<T>(before: Promise<unknown>, work: () => Promise<T>): Promise<T> {
  await before.catch(() => undefined);
  return work();
}

/** Reports of walks that were asked for together, as one of a run that has them all. */
function merged(source: string, reports: readonly RunReport[]): RunReport {
  const status = overallStatus(reports.map((report) => report.status));
  const runId = reports.find(({ run_id }) => run_id !== '')?.run_id ?? '';
  return { source, run_id: runId, status, resources: reports.flatMap(({ resources }) => resources) };
}
