import type { App } from '../../app.ts';
import type { Clock } from '../../model/clock.ts';
import { errorReport, SyncError } from '../../model/errors.ts';
import { scrubOwn } from '../../observe/scrub.ts';
import { readCheckpoint } from '../../state/checkpoints.ts';
import { readPauses } from '../../state/pauses.ts';
import type { RunReport, RunWatcher } from '../../sync/report.ts';
import type { StoredSuccess } from '../../trigger/schedule/due.ts';
import { KnownPauses } from '../controls/known-pauses.ts';
import type { WalkItem, WorkEnd } from '../work-items/work-items.ts';
import type { WalkResult } from './ask-walk.ts';

export interface WalkParts {
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
    if (await pauses.isPaused(item.resource)) return done({ report: unfinished(item) });
    if (isFresh(item, await readCheckpoint(app.warehouse.own, item.resource)))
      return done({ report: nothingLeft(item) });
    const { resource, command } = item;
    // By name, so that a scheduled full walk is one even if an earlier backfill was interrupted.
    const asked = {
      command: { [resource]: command },
      resources: [resource],
      restart: false,
    };
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

function unfinished({ source }: WalkItem): RunReport {
  return { source, run_id: '', status: 'interrupted', resources: [] };
}

function nothingLeft({ source }: WalkItem): RunReport {
  return { source, run_id: '', status: 'ok', resources: [] };
}
