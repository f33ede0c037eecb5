import type { SyncError } from '../../model/errors.ts';
import type { Lane } from '../../model/vocabulary.ts';
import type { ReportWindows } from '../../source/report-windows.ts';
import type { CheckpointRow, WindowRow } from '../../warehouse/own-tables.ts';
import type { Warning } from '../warnings.ts';
import { daysBetween, type Day, type ReportWindow } from './report-days.ts';
import { nextRange, type ReportRange } from './report-ranges.ts';
import type { Reports } from './replace-range.ts';

/** A walk over reports that is under way. */
export interface ReportWalk {
  reports: Reports;
  lane: Lane;
  /** False if requests name one window. */
  hasEnd: boolean;
  today: Day;
  /** Behind the last day that is asked for. */
  until: Day;
  /** As the last range has left it. */
  checkpoint: CheckpointRow;
  /** Records on the largest page that named a next one; null if it is not known. */
  kept: number | null;
  /** Windows that are asked for at once, as far as the service, or this process, is known to manage. */
  most: number;
  /** False once totals were seen to count what is never listed: then a range that lacks some is not cut for it. */
  cutsByTotals: boolean;
  /** Rows to expect of a window that was never fetched, by those that are here; null if nothing is known. */
  likely: number | null;
  /** False once something may be missing that no later range brings. */
  isProved: boolean;
  /** The windows that the service refused, by their first days, and the error of the first one. */
  refusals: { days: Day[]; error: SyncError | null; inARow: number; isAnyRead: boolean };
  /** To be reported at its end, one of each kind. */
  warnings: Map<Warning['code'], Warning>;
}

/** Of the rows that a service lists at most, so many are planned for: days differ. */
const PLANNED = 0.8;

/** The newest windows that are due as a range of a size that is likely to be answered whole. */
export function rangeFrom(
  { reports: { windows, rows }, until, most, likely, hasEnd }: ReportWalk,
  due: readonly ReportWindow[],
): { range: ReportRange; left: readonly ReportWindow[] } {
  const rowsOf = ({ start }: ReportWindow): number | null => {
    const row = rows.get(start);
    if (row === undefined || row.fetched_at === null) return likely;
    // It may have been fetched before its day was over.
    return row.is_final === 1 ? row.rows : Math.max(row.rows, likely ?? 0);
  };
  return nextRange(due, {
    largest: largestDays(windows),
    windows: hasEnd ? most : 1,
    until,
    rows: windows.most === null ? null : Math.floor(PLANNED * windows.most),
    rowsOf,
  });
}

const DAY_MS = 86_400_000;

function largestDays({ largest }: ReportWindows): number {
  return largest / DAY_MS;
}

/** So many of the newest windows say what others are likely to hold. */
const TYPICAL = 10;

/** Rows to expect of a window, by those that are known to be whole; null if there are none. */
export function likelyRows(rows: Iterable<WindowRow>): number | null {
  const final = [...rows].filter(({ is_final, dropped_at }) => is_final === 1 && dropped_at === null);
  const newest = final.toSorted((a, b) => (a.window_start < b.window_start ? 1 : -1)).slice(0, TYPICAL);
  return newest.length === 0 ? null : Math.max(...newest.map((row) => row.rows));
}

/** What an answer that is too much for one says of those to come. */
export function learnFromCut(
  walk: ReportWalk,
  range: ReportRange,
  tooMuch: 'capped' | 'refused' | 'slow' | 'memory' | 'short',
): void {
  const { windows } = walk.reports;
  const asked = range.windows.length;
  if (tooMuch === 'capped') walk.likely = Math.max(walk.likely ?? 0, (windows.most ?? 0) / asked);
  else walk.most = Math.max(1, Math.floor(asked / 2));
}

/** What a range that came whole says of those to come. */
export function learnFromAnswer(
  walk: ReportWalk,
  { from, to, windows }: ReportRange,
  rows: number,
  kept: number,
): void {
  // Of a window that is not over nothing follows.
  if (to < walk.today || daysBetween(from, to) > 1) walk.likely = rows / windows.length;
  if (kept > 0) walk.kept = Math.max(walk.kept ?? 0, kept);
}
