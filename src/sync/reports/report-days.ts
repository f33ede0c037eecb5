import type { JsonValue } from '../../model/json.ts';
import type { Cell, Column } from '../../model/table.ts';
import { LOCAL, timeZone, type TimeZone, zoneAt } from '../../model/time-zone.ts';
import { timestampMs } from '../../model/timestamp-text.ts';
import type { WalkMode } from '../../model/vocabulary.ts';
import { isDay } from '../../rows/columns/timestamps.ts';
import { parseInstant } from '../../rows/columns/timestamps.ts';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import type { Granularity, ReportWindows } from '../../config/profile/report-windows.ts';
import type { WindowRow } from '../../database/own-tables.ts';

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

/** How the days of records are read. */
export interface DayReading {
  /** The zone that days are of. */
  reports: TimeZone;
  /** Of times of the field that name none; null: UTC. */
  field: TimeZone | null;
  /** True if nobody tells the zone of such times: then it is that of the reports. */
  isLocal: boolean;
}

/** By the profile of the resource. */
export function dayReading({ times }: Pick<ResourceProfile, 'times'>, { field, zone }: ReportWindows): DayReading {
  return { reports: timeZone(zone), field: zoneAt(times, field), isLocal: times[field] === LOCAL };
}

const COMPACT = /^(\d{4})(\d\d)(\d\d)$/;
const DAY_LENGTH = 10;
const MONTH = /^\d{4}-\d\d$/;

/**
 * The day that a value says: a date, also as `20260131`, a month by its first day, or the day of a moment in the zone of
 * the reports. Null for anything else.
 */
export function dayOf(value: JsonValue | bigint | undefined, reading: DayReading): Day | null {
  const text = typeof value === 'number' || typeof value === 'bigint' ? String(value) : value;
  if (typeof text === 'string') {
    const day = MONTH.test(text) ? `${text}-01` : text.replace(COMPACT, '$1-$2-$3');
    if (day.length === DAY_LENGTH && isDay(day)) return day;
    if (reading.isLocal && isDay(text.slice(0, 10)) && /^[T ]\d\d/.test(text.slice(10))) return text.slice(0, 10);
  }
  if (typeof value === 'bigint') return null;
  const instant = parseInstant(value, reading.field);
  return instant === null ? null : localDay(instant.epochMs, reading.reports);
}

/** The same of a cell; a moment is UTC there. */
export function dayOfCell(cell: Cell, type: Column['type'], reading: DayReading): Day | null {
  if (typeof cell === 'boolean') return null;
  if (type !== 'timestamp' || typeof cell !== 'string') return dayOf(cell, reading);
  const at = timestampMs(cell);
  return Number.isNaN(at) ? null : localDay(at, reading.reports);
}

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
interface DueWindows {
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
