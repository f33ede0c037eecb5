import { setImmediate as nextTurn } from 'node:timers/promises';
import { shapeOf } from '../../load/prepare-page.ts';
import { timeZone } from '../../model/time-zone.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import type { ReportWindows } from '../../source/report-windows.ts';
import { dropStatements } from '../../state/stored-rows.ts';
import { inParts } from '../../state/in-parts.ts';
import { saveWindows } from '../../state/windows.ts';
import type { WindowRow } from '../../warehouse/own-tables.ts';
import type { ResourceContext } from '../resource-context.ts';
import type { Warning } from '../warnings.ts';
import { rowsOfRange, type Reports } from './replace-range.ts';
import { keptFrom, localDay } from './report-days.ts';

/** Rows per transaction: readers and other writers get their turn. */
const ROWS_PER_STEP = 200;

/**
 * Takes the windows out of the copy that are older than `keep`, the oldest first, with all versions of their rows, and
 * notes when: they are not asked for again. A window that is taken out halfway when the process is killed is taken up
 * by the next run. Returns what to tell of it, if there was any.
 */
export async function dropOldWindows(context: ResourceContext, reports: Reports): Promise<Warning[]> {
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
