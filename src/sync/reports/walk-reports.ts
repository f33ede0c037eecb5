import { setImmediate as nextTurn } from 'node:timers/promises';
import { openPageLoader } from '../../load/page-loader.ts';
import { shapeOf } from '../../load/prepare-page.ts';
import { timeZone } from '../../model/time-zone.ts';
import { timestampMs, timestampText } from '../../model/timestamp-text.ts';
import { asksForEnd, type ReportWindows } from '../../config/profile/report-windows.ts';
import { saveCheckpoint } from '../../database/state/checkpoints.ts';
import { inParts } from '../../database/state/in-parts.ts';
import { dropStatements } from '../../database/state/stored-rows.ts';
import { readSuspects } from '../../database/state/suspects.ts';
import { forgetWindows, readWindows, saveWindows } from '../../database/state/windows.ts';
import type { WindowRow } from '../../database/own-tables.ts';
import { checkpointAfter } from '../cursor/move-cursor.ts';
import type { WalkPlan } from '../plan.ts';
import type { ResourceContext } from '../resource-context.ts';
import type { RunContext } from '../run-progress.ts';
import type { Warning } from '../warnings.ts';
import { askRange } from './ask-range.ts';
import { RangesAhead } from './read-range.ts';
import { rowsOfRange } from './replace-range.ts';
import { dayReading, dueWindows, keptFrom, localDay, type ReportWindow, strayRows } from './report-days.ts';
import type { Reports, ReportWalk } from './report-walk.ts';

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
  return (await warehouse.rows.count(owned.resource)) === here.reduce((sum, row) => sum + row.rows, 0);
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

/** Rows per transaction: readers and other writers get their turn. */
const ROWS_PER_STEP = 200;

/**
 * Takes the windows out of the copy that are older than `keep`, the oldest first, with all versions of their rows, and
 * notes when: they are not asked for again. A window that is taken out halfway when the process is killed is taken up
 * by the next run. Returns what to tell of it, if there was any.
 */
async function dropOldWindows(context: ResourceContext, reports: Reports): Promise<Warning[]> {
  const { clock, signal } = context;
  const { windows, rows } = reports;
  const kept = keptFrom(windows.keep, localDay(clock.now(), timeZone(windows.zone)));
  if (kept === null) return [];
  const old = [...rows.values()]
    .filter((row) => row.window_end <= kept && row.dropped_at === null)
    .toSorted((a, b) => (a.window_start < b.window_start ? -1 : 1));
  let dropped = 0;
  for (const row of old) {
    signal.throwIfAborted();
    dropped += await dropWindow(context, reports, row);
  }
  const [first] = old;
  return first === undefined ? [] : [droppedWarning(old.length, dropped, first, windows)];
}

/**
 * Only the last step says that the window is gone. The first of several says that it may change: whoever keeps windows for
 * longer before it is gone gets it again.
 */
async function dropWindow(context: ResourceContext, reports: Reports, row: WindowRow): Promise<number> {
  const { warehouse, owned, clock } = context;
  const [table, ...children] = shapeOf(owned).tables;
  const range = { from: row.window_start, to: row.window_end };
  const found = table === undefined ? [] : [...(await rowsOfRange(context, reports, range, 'all')).keys()];
  const none = { held_at: null, held: null, released_at: null } as const;
  const after = { ...row, ...none, dropped_at: timestampText(clock.now()) };
  const steps = inParts(found, ROWS_PER_STEP);
  for (const [index, keys] of (steps.length === 0 ? [[]] : steps).entries()) {
    const isLast = index >= steps.length - 1;
    const noted = isLast ? [after] : index === 0 ? [{ ...row, is_final: 0 } as const] : [];
    const statements = [
      ...(table === undefined ? [] : dropStatements(warehouse, { resource: owned.resource, table, children, keys })),
      ...saveWindows(warehouse.own, noted),
    ];
    await owned.takeTurn(() => warehouse.apply(statements, owned.lease()));
    await nextTurn();
  }
  reports.rows.set(row.window_start, after);
  return found.length;
}

function droppedWarning(windows: number, rows: number, first: WindowRow, { keep }: ReportWindows): Warning {
  const age = keep === null || keep.months === 0 ? `${keep?.days ?? 0} days` : `${keep.months} months`;
  return {
    code: 'windows_dropped',
    message: `${windows} window${windows === 1 ? '' : 's'} from ${first.window_start} on, older than ${age}, left the copy with ${rows} row${rows === 1 ? '' : 's'}`,
    hint: 'nothing is to be done: `windows.keep` says so; _sync_windows remembers when, and how many rows there were',
  };
}

/** What a person has to know of windows as they are remembered; told by every run for as long as it is so. Pure. */
function windowWarnings(rows: readonly WindowRow[], resource: string, { most }: ReportWindows): Warning[] {
  const here = rows.filter(({ dropped_at }) => dropped_at === null);
  const held = here.filter(({ held_at }) => held_at !== null);
  const capped = here.filter((row) => row.capped === 1);
  const differing = here.filter(({ totals }) => totals !== null);
  const [first] = held;
  return [
    ...told(held, {
      code: 'window_held',
      message: `${these(held)} kept as ${held.length === 1 ? 'it was' : 'they were'}, because by the service's answer too much would be deleted: ${first?.held ?? ''}`,
      hint: `look at the service; then content-sync deletes confirm ${resource} takes its next answer over, whatever it deletes`,
    }),
    ...told(capped, {
      code: 'window_capped',
      message: `${these(capped)} as large as the service lists at most (windows.most: ${most ?? '–'}): rows may be missing`,
      hint: 'set a finer windows.granularity, or fewer dimensions; windows.most only if the service lists more than that',
    }),
    ...told(differing, {
      code: 'window_total_differs',
      message: `${these(differing)} counted otherwise than the service tells: ${differing[0]?.totals ?? ''}`,
      hint: 'see _sync_windows; if totals count what is not listed, take them out of windows.totals, or accept: [totals]',
    }),
  ];
}

function told(rows: readonly WindowRow[], warning: Warning): Warning[] {
  return rows.length === 0 ? [] : [warning];
}

/** As in `3 windows are` and `the window of 2026-01-31 is`. */
function these(rows: readonly WindowRow[]): string {
  const days = rows.map(({ window_start }) => window_start);
  if (days.length === 1) return `the window of ${days[0] ?? ''} is`;
  return `${days.length} windows (${days.slice(0, 3).join(', ')}${days.length > 3 ? ', ...' : ''}) are`;
}
