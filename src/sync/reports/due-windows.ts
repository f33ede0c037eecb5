import { timeZone } from '../../model/time-zone.ts';
import { timestampMs } from '../../model/timestamp-text.ts';
import type { WalkMode } from '../../model/vocabulary.ts';
import type { ReportWindows } from '../../source/report-windows.ts';
import type { WindowRow } from '../../warehouse/own-tables.ts';
import {
  addDays,
  dayBegin,
  dayBeginLatest,
  keptFrom,
  localDay,
  windowAt,
  windowsBetween,
  type Day,
  type ReportWindow,
} from './report-days.ts';

/** What is asked for of a resource, and when. */
export interface WindowPlan {
  windows: ReportWindows;
  /** What is remembered of each window, by its first day. */
  rows: ReadonlyMap<Day, WindowRow>;
  mode: WalkMode;
  /** When the walk began, and now; epoch milliseconds. */
  walkStartedAt: number;
  now: number;
  /** False if requests name one window: then the day that has not begun yet is not worth one. */
  hasEnd: boolean;
}

/** The windows to ask for, and up to where. */
export interface DueWindows {
  /** The newest first. */
  windows: ReportWindow[];
  today: Day;
  /** Behind the last day that is asked for: early rows are dated tomorrow, where the service lists that. */
  until: Day;
}

/**
 * A full walk asks for each window, and goes on by what was fetched since it began; an incremental one for those that
 * may have changed since, were never fetched, or wait for a person. What may still change is asked for in any case, also
 * by a walk that was taken up, so that its end speaks of now. Pure.
 */
export function dueWindows(plan: WindowPlan): DueWindows {
  const { windows: profile, rows, now } = plan;
  const today = localDay(now, timeZone(profile.zone));
  const until = addDays(today, listsTomorrow(plan) ? 2 : 1);
  const first = [profile.start, keptFrom(profile.keep, today) ?? profile.start].toSorted().at(-1) ?? profile.start;
  const all = windowsBetween(first, until, profile.granularity);
  return { windows: all.filter((window) => isDue(rows.get(window.start), plan)).toReversed(), today, until };
}

function isDue(row: WindowRow | undefined, { mode, walkStartedAt, now }: WindowPlan): boolean {
  if (row === undefined || row.fetched_at === null || row.held_at !== null) return row?.dropped_at == null;
  if (row.dropped_at !== null) return false;
  const fetchedAt = timestampMs(row.fetched_at);
  // A time that is still to come is none of this walk's: our clock was put back.
  return row.is_final === 0 || (mode === 'full' && (fetchedAt < walkStartedAt || fetchedAt > now));
}

/**
 * Many services refuse days to come: what was asked for before it began shows that this one lists them. With nothing
 * known, and by a full walk, it is tried.
 */
function listsTomorrow({ windows: { zone }, rows, mode, hasEnd }: WindowPlan): boolean {
  if (!hasEnd) return false;
  const newest = [...rows.values()]
    .filter(({ fetched_at }) => fetched_at !== null)
    .toSorted(byStart)
    .at(-1);
  if (newest === undefined || newest.fetched_at === null || mode === 'full') return true;
  return timestampMs(newest.fetched_at) < dayBegin(newest.window_start, timeZone(zone));
}

function byStart(a: WindowRow, b: WindowRow): number {
  return a.window_start < b.window_start ? -1 : 1;
}

/** True if nothing of a window could change any more when it was asked for at that moment. */
export function isFinalAt(requestedAt: number, { end }: ReportWindow, { restate, zone }: ReportWindows): boolean {
  return requestedAt >= dayBeginLatest(end, timeZone(zone)) + restate;
}

/** Windows that are remembered and are none of this grid, as after a change of granularity or start. */
export function strayRows(rows: Iterable<WindowRow>, { granularity }: ReportWindows): WindowRow[] {
  return [...rows].filter(({ window_start: start, window_end: end }) => {
    const window = windowAt(start, granularity);
    return window.start !== start || window.end !== end;
  });
}
