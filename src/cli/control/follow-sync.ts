import { SyncError } from '../../model/errors.ts';
import { repeatUntilAborted } from '../../model/waiting.ts';
import type { ServeDoor } from '../../serve/controls/ask-serve.ts';
import { together } from '../../serve/controls/create-controls.ts';
import { readCheckpoint } from '../../state/checkpoints.ts';
import type { SyncCommand } from '../../sync/plan.ts';
import type { RunReport } from '../../sync/report.ts';
import { openWarehouseToRead } from '../../warehouse/databases.ts';
import type { CliContext } from '../command/context.ts';
import { failureOf } from '../command/find-serve.ts';
import { followRun, type FollowedRun } from '../command/follow-run.ts';
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
  const { source, resources, log } = chosen;
  const shown = followRun({ context, log, resources, live: asked.live });
  const leaving = new AbortController();
  const parts: Part = { ...asked, shown, signal: AbortSignal.any([context.signal, leaving.signal]), paused: [] };
  const showing = showProgress(parts);
  try {
    const report = await together(source, resources, (resource) => followOne(parts, resource));
    if (report.resources.length === 0 && parts.paused.length > 0) throw parts.paused[0];
    return report;
  } catch (error) {
    if (error === OTHER) return null;
    if (context.signal.aborted) throw detached();
    throw error;
  } finally {
    // The others of a request that failed are not followed any more.
    leaving.abort();
    await showing;
    shown.finish();
  }
}

interface Part extends FollowSync {
  shown: FollowedRun;
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

function detached(): SyncError {
  return new SyncError('interrupted', 'detached: the walk goes on in the running serve', {
    recovery: 'stop',
    hint: 'content-sync status shows how it stands; content-sync pause stops it',
  });
}
