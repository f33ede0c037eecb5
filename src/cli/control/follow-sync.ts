import { SyncError } from '../../model/errors.ts';
import type { WalkMode } from '../../model/vocabulary.ts';
import { repeatUntilAborted } from '../../model/waiting.ts';
import {
  advanceResource,
  endResource,
  type GovernorProgress,
  type ProgressUpdate,
  startResource,
} from '../../observe/progress.ts';
import type { ServeDoor } from '../../server/controls/ask-serve.ts';
import { together } from '../../server/controls/create-controls.ts';
import { logWalks } from '../../server/source-watcher.ts';
import { readCheckpoint } from '../../database/state/checkpoints.ts';
import type { SyncCommand } from '../../sync/plan.ts';
import { NO_NOTES, type ResourceReport, type RunReport } from '../../sync/report.ts';
import { openWarehouseToRead } from '../../database/databases.ts';
import type { CliContext } from '../command/context.ts';
import { failureOf } from '../command/find-serve.ts';
import { liveLines } from '../command/watch-run.ts';
import type { ChosenSource } from '../command/sources.ts';

interface FollowSync {
  context: CliContext;
  chosen: ChosenSource;
  door: ServeDoor;
  command: SyncCommand;
  /** True if the resources were named: then a paused one is an error. */
  areNamed: boolean;
  /** Live lines on a terminal. */
  live: boolean;
}

const MODES = { sync: 'incremental', backfill: 'full' } as const;
/** How often the progress of the syncs is read. */
const LOOK_MS = 300;

/**
 * Has a running `serve` sync resources, and follows that to its end. Null if that one does not keep the source. Throws
 * what keeps it from being done, and `SyncError('interrupted')` on Ctrl-C: the syncs go on then.
 */
export async function followSync(asked: FollowSync): Promise<RunReport | null> {
  const { context, chosen } = asked;
  const { source, resources } = chosen;
  const shown = followRun(asked);
  const leaving = new AbortController();
  const parts: Part = { ...asked, shown, signal: AbortSignal.any([context.signal, leaving.signal]), paused: [] };
  const showing = showProgress(parts);
  try {
    const report = await together(source, resources, (resource) => followOne(parts, resource));
    if (report.resources.length === 0 && parts.paused.length > 0) throw parts.paused[0];
    return report;
  } catch (error) {
    if (error === OTHER) return null;
    if (!context.signal.aborted) throw error;
    throw new SyncError('interrupted', 'detached: the walk goes on in the running serve', {
      recovery: 'stop',
      hint: 'content-sync status shows how it stands; content-sync pause stops it',
    });
  } finally {
    // The others of a request that failed are not followed any more.
    leaving.abort();
    await showing;
    shown.finish();
  }
}

interface Part extends FollowSync {
  shown: ReturnType<typeof followRun>;
  signal: AbortSignal;
  /** The refusals of resources that are paused. */
  paused: SyncError[];
}

/** Shows the pages that the syncs have stored, whichever process does them. Never rejects. */
async function showProgress({ context: { clock }, chosen, shown, signal }: Part): Promise<void> {
  const reader = await openWarehouseToRead(chosen.source.warehouse, clock).catch(() => null);
  if (reader === null) return;
  await repeatUntilAborted({ clock, everyMs: LOOK_MS, signal }, async () => {
    for (const resource of chosen.resources) {
      const stored = await readCheckpoint(reader.own, resource);
      if (stored === null || stored.walk_mode === null) continue;
      const { walk_mode: mode, walk_records: records, walk_pages: pages, walk_total: total } = stored;
      shown.news({ resource, mode, records, pages, total });
    }
  });
  await reader.close();
}

const OTHER = new SyncError('unknown_source', 'another process keeps the source', { recovery: 'stop' });

async function followOne(part: Part, resource: string): Promise<RunReport> {
  const { chosen, door, command, shown, signal, areNamed } = part;
  const { name } = chosen.source;
  const { answer, report } = await door.ask({ action: 'sync', source: name, resource, mode: MODES[command] }, signal);
  if (answer.code === 'unknown_source') throw OTHER;
  if (report !== null) {
    chosen.log.info({ resource }, `asked the running serve: ${answer.message}`);
    const ended = await report;
    for (const each of ended.resources) shown.ended(each);
    return ended;
  }
  const failure = failureOf(answer);
  if (failure.code !== 'paused' || areNamed) throw failure;
  chosen.log.warn({ resource, hint: failure.hint }, failure.message);
  part.paused.push(failure);
  return { source: name, run_id: '', status: 'ok', resources: [] };
}

/** Progress of a sync that another process does. */
type SyncNews = Omit<ProgressUpdate, 'requests'> & { resource: string; mode: WalkMode };

/** Nothing is known here of the requests of the other process. */
const QUIET: GovernorProgress = {
  requests: 0,
  limited: 0,
  allowedPerSecond: null,
  shareUsed: null,
  pausedForMs: 0,
};
/** A sync under way is logged at most this often. */
const LOG_EVERY_MS = 10_000;

/** Live lines on a terminal, log lines anywhere else, as for syncs of this process. */
function followRun({ context, chosen: { log, resources }, live }: FollowSync) {
  const { clock } = context;
  const { change, recordsOf, finish } = liveLines(context, resources, live, () => QUIET);
  const modes = new Map<string, WalkMode>();
  const loggedAt = new Map<string, number>();
  const logged = logWalks(log, clock, 'info');
  return {
    news: ({ resource, mode, ...counts }: SyncNews): void => {
      const { pages, records, total } = counts;
      const isOther = modes.get(resource) !== mode || records < recordsOf(resource);
      const now = { ...counts, requests: 0 };
      change(resource, (was, at) => (isOther ? startResource : advanceResource)(was, at, now));
      const at = clock.monotonic();
      if (isOther) log.info({ resource, mode, pages_before: pages }, 'walk started');
      else if (at - (loggedAt.get(resource) ?? at) >= LOG_EVERY_MS)
        log.info({ resource, mode, pages, records, total }, 'walk under way');
      else return;
      modes.set(resource, mode);
      loggedAt.set(resource, at);
    },
    ended: (report: ResourceReport): void => {
      change(report.resource, (was, at) => endResource(was, at, report.status));
      logged.ended(report, NO_NOTES, null);
    },
    finish,
  };
}
