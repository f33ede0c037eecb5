import type { TimeZone } from '../../model/time-zone.ts';
import type { Granularity, ReportWindows } from '../../source/report-windows.ts';

/** A day of the reports' zone, `YYYY-MM-DD`: the order of the texts is that of the days. */
export type Day = string;

/** A window of reports, whole days. */
export interface ReportWindow {
  start: Day;
  /** The first day behind it. */
  end: Day;
}

const DAY_MS = 86_400_000;
const MONDAY = 1;

export function addDays(day: Day, days: number): Day {
  return dayOfUtc(Date.parse(day) + days * DAY_MS);
}

/** Days from one to another. */
export function daysBetween(from: Day, to: Day): number {
  return (Date.parse(to) - Date.parse(from)) / DAY_MS;
}

/** The window that a day is in. */
export function windowAt(day: Day, granularity: Granularity): ReportWindow {
  if (granularity === 'day') return { start: day, end: addDays(day, 1) };
  if (granularity === 'month') return { start: `${day.slice(0, 8)}01`, end: `${addMonths(day, 1).slice(0, 8)}01` };
  const start = addDays(day, -((new Date(day).getUTCDay() + 7 - MONDAY) % 7));
  return { start, end: addDays(start, 7) };
}

/** The windows from the one with the day `from` on that begin before `behind`, the oldest first. */
export function windowsBetween(from: Day, behind: Day, granularity: Granularity): ReportWindow[] {
  const windows: ReportWindow[] = [];
  for (let at = windowAt(from, granularity); at.start < behind; at = windowAt(at.end, granularity)) windows.push(at);
  return windows;
}

/** The day of a moment (epoch milliseconds). */
export function localDay(moment: number, zone: TimeZone): Day {
  return dayOfUtc(zone.toLocal(moment));
}

/** The first moment of a day; where its midnight occurs twice, or not at all, the first that it may mean. */
export function dayBegin(day: Day, zone: TimeZone): number {
  return zone.earliest(Date.parse(day));
}

/** A moment from which on everything before the day is over. */
export function dayBeginLatest(day: Day, zone: TimeZone): number {
  const local = Date.parse(day);
  return zone.earliest(local) + zone.spread(local);
}

/** The first day that is kept: windows that end by then are not. Null if all are kept. */
export function keptFrom(keep: ReportWindows['keep'], today: Day): Day | null {
  return keep === null ? null : addDays(addMonths(today, -keep.months), -keep.days);
}

/** The same day of another month, or the last day of that month where it is shorter. */
function addMonths(day: Day, months: number): Day {
  const [year = 0, month = 1, date = 1] = day.split('-').map(Number);
  const last = new Date(Date.UTC(year, month + months, 0)).getUTCDate();
  return dayOfUtc(Date.UTC(year, month - 1 + months, Math.min(date, last)));
}

function dayOfUtc(at: number): Day {
  return new Date(at).toISOString().slice(0, 10);
}
