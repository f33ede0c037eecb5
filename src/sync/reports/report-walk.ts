import type { PageLoader } from '../../load/page-loader.ts';
import type { SyncError } from '../../model/errors.ts';
import type { Lane } from '../../model/vocabulary.ts';
import type { ReportWindows } from '../../config/profile/report-windows.ts';
import type { CheckpointRow, WindowRow } from '../../database/own-tables.ts';
import type { Warning } from '../warnings.ts';
import type { Day, DayReading, ReportWindow } from './report-days.ts';
import { nextRange, type ReportRange } from './report-ranges.ts';

/** What the windows of a resource are read and replaced by. */
export interface Reports {
  windows: ReportWindows;
  reading: DayReading;
  loader: PageLoader;
  /** What is remembered of each window, by its first day; brought up to date here. */
  rows: Map<Day, WindowRow>;
  /** True if there are rows in windows alone that are remembered as fetched. */
  isKnown: boolean;
  /** Keys of rows that something else speaks against, such as an event. */
  suspected: ReadonlySet<string>;
}

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
  /** False once something may be missing that no later range brings. */
  isProved: boolean;
  /** The windows that the service refused, by their first days, and the error of the first one. */
  refusals: { days: Day[]; error: SyncError | null; inARow: number; isAnyRead: boolean };
  /** To be reported at its end, one of each kind. */
  warnings: Map<Warning['code'], Warning>;
}

/** The newest windows that are due as a range of a size that is likely to be answered whole. */
export function rangeFrom(
  { reports: { windows }, until, most, hasEnd }: ReportWalk,
  due: readonly ReportWindow[],
): { range: ReportRange; left: readonly ReportWindow[] } {
  return nextRange(due, { largest: windows.largest / DAY_MS, windows: hasEnd ? most : 1, until });
}

const DAY_MS = 86_400_000;
