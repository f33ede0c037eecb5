import { openPageLoader } from '../../load/page-loader.ts';
import { timestampMs } from '../../model/timestamp-text.ts';
import { asksForEnd, type ReportWindows } from '../../source/report-windows.ts';
import { saveCheckpoint } from '../../state/checkpoints.ts';
import { readSuspects } from '../../state/suspects.ts';
import { forgetWindows, readWindows } from '../../state/windows.ts';
import type { WindowRow } from '../../warehouse/own-tables.ts';
import { checkpointAfter } from '../cursor/move-cursor.ts';
import type { WalkPlan } from '../plan.ts';
import type { RunContext } from '../run-progress.ts';
import { askRange } from './ask-range.ts';
import { dropOldWindows } from './drop-windows.ts';
import { dueWindows, strayRows } from './due-windows.ts';
import { dayReading } from './record-day.ts';
import type { ReportWindow } from './report-days.ts';
import { RangesAhead } from './ranges-ahead.ts';
import { likelyRows, type ReportWalk } from './report-walk.ts';
import { windowWarnings } from './window-warnings.ts';

/**
 * One walk over the windows of reports, the newest first: each range is asked for whole, cut in two where that is too
 * much, and replaces what stands in the tables in one transaction, with the checkpoint that says so. Ranges behind it are
 * asked for meanwhile; a kill costs those, and the one in hand. Adds its warnings to the run's. Throws `SyncError` with everything up to the last range in place.
 */
export async function walkReports(context: RunContext, plan: WalkPlan, windows: ReportWindows): Promise<void> {
  const { warehouse, owned, clock, progress } = context;
  const { walk, due } = await openWalk(context, plan, windows);
  await walkRanges(context, walk, due);
  const { isProved, refusals } = walk;
  if (refusals.error !== null && !refusals.isAnyRead) throw refusals.error;
  const ended = { next: null, pages: 0, records: 0, serverDate: null, isProved, updated: [] };
  const checkpoint = checkpointAfter(walk.checkpoint, ended, clock.now());
  await owned.takeTurn(() => warehouse.apply([saveCheckpoint(warehouse.own, checkpoint)], owned.lease()));
  const dropped = await dropOldWindows(context, walk.reports);
  const told = windowWarnings([...walk.reports.rows.values()], owned.resource, windows);
  progress.warnings.push(...walk.warnings.values(), ...told, ...dropped);
}

async function walkRanges(context: RunContext, walk: ReportWalk, due: readonly ReportWindow[]): Promise<void> {
  const ahead = new RangesAhead(context, walk, due);
  try {
    for (let begun = await ahead.next(); begun !== null; begun = await ahead.next()) {
      context.signal.throwIfAborted();
      const { range, answer } = begun;
      let parts = await askRange(context, walk, range, answer);
      if (parts.length > 0) ahead.cut();
      for (; parts[0] !== undefined;) {
        context.signal.throwIfAborted();
        const [part, ...rest] = parts;
        parts = [...(await askRange(context, walk, part)), ...rest];
      }
    }
  } finally {
    await ahead.close();
  }
}

async function openWalk(
  context: RunContext,
  { mode, checkpoint }: WalkPlan,
  windows: ReportWindows,
): Promise<{ walk: ReportWalk; due: readonly ReportWindow[] }> {
  const { profile, clock, warehouse, owned } = context;
  // What an answer for a window says is so, also where a record bears an older time of change than its row.
  const loader = await openPageLoader(context, { acceptsOlder: true });
  const rows = await rememberedWindows(context, windows);
  const suspects = await readSuspects(warehouse.own, owned.resource, ['open', 'held', 'released']);
  const suspected = new Set(suspects.map(({ record_id }) => record_id));
  const isKnown = mode === 'full' && (await areAllKnown(context, rows.values()));
  const hasEnd = asksForEnd(profile);
  const now = clock.now();
  const begun = checkpoint.walk_started_at;
  const walkStartedAt = begun === null ? now : timestampMs(begun);
  const { windows: due, today, until } = dueWindows({ windows, rows, mode, walkStartedAt, now, hasEnd });
  const walk: ReportWalk = {
    reports: { windows, reading: dayReading(profile, windows), loader, rows, suspected, isKnown },
    lane: mode === 'full' ? 'backfill' : 'incremental',
    hasEnd,
    today,
    until,
    checkpoint,
    kept: checkpoint.kept_size,
    most: Infinity,
    cutsByTotals: true,
    likely: likelyRows(rows.values()),
    isProved: true,
    refusals: { days: [], error: null, inARow: 0, isAnyRead: false },
    warnings: new Map(),
  };
  return { walk, due };
}

/** True if every live row came with a window that is remembered, so that there are none in others. */
async function areAllKnown({ warehouse, owned, profile }: RunContext, rows: Iterable<WindowRow>): Promise<boolean> {
  // A record that is read alone has a row before its window is fetched.
  if (profile.item !== null) return false;
  const here = [...rows].filter(({ dropped_at }) => dropped_at === null);
  return (await warehouse.count(owned.resource)) === here.reduce((sum, row) => sum + row.rows, 0);
}

/** By first day. Those of another grid, from before the profile was changed, are forgotten. */
async function rememberedWindows(
  { warehouse, owned }: RunContext,
  windows: ReportWindows,
): Promise<Map<string, WindowRow>> {
  const rows = await readWindows(warehouse.own, owned.resource);
  const stray = new Set(strayRows(rows, windows).map(({ window_start }) => window_start));
  if (stray.size > 0) {
    const forgotten = forgetWindows(warehouse.own, owned.resource, [...stray]);
    await owned.takeTurn(() => warehouse.apply(forgotten, owned.lease()));
  }
  return new Map(rows.filter(({ window_start: start }) => !stray.has(start)).map((row) => [row.window_start, row]));
}
