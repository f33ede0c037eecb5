// Which windows of reports a run requests, in which ranges of days, and by which parameters.
//
// A report, such as page views per day, is requested by windows: days, weeks or months. With `granularity: week` the day
// 2026-01-14 belongs to the window from 2026-01-12 to 2026-01-19. `dueWindows` finds the windows that a run must request,
// `nextRange` combines consecutive ones into the range of one request, and `rangeQuery` writes its parameters. Days are
// those of the time zone in which the service counts.
import type { ExtraQuery } from '../../pagination/requests/filter-query.ts';
import { formatStepMs, formatTime } from '../../pagination/requests/filter-query.ts';
import { parsePlace } from '../../config/profile/basic-fields.ts';
import {
  type Granularity,
  hasOffset,
  isNamedFormat,
  parsePattern,
  type ReportWindows,
  writePattern,
} from '../../config/profile/incremental.ts';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import type { WindowRow } from '../../database/own-tables.ts';
import type { JsonValue } from '../../model/json.ts';
import type { Cell, Column } from '../../model/table.ts';
import { LOCAL, timeZone, type TimeZone, zoneAt } from '../../model/time-zone.ts';
import { timestampMs } from '../../model/timestamp-text.ts';
import type { ScanMode } from '../../model/vocabulary.ts';
import type { PlaceValue } from '../../pagination/page-styles/page-position.ts';
import { isDay, parseInstant } from '../../rows/columns/cells.ts';

/** A day in the zone of the reports, as `YYYY-MM-DD`. Texts sort as days do. */
export type Day = string;

export interface ReportWindow {
  start: Day;
  /** The first day after it. */
  end: Day;
}

export const DAY_MS = 86_400_000;
const MONDAY = 1;

export function addDays(day: Day, days: number): Day {
  return dayOfUtc(Date.parse(day) + days * DAY_MS);
}

export function windowAt(day: Day, granularity: Granularity): ReportWindow {
  if (granularity === 'day') return { start: day, end: addDays(day, 1) };
  if (granularity === 'month') return { start: `${day.slice(0, 8)}01`, end: `${addMonths(day, 1).slice(0, 8)}01` };
  const start = addDays(day, -((new Date(day).getUTCDay() + 7 - MONDAY) % 7));
  return { start, end: addDays(start, 7) };
}

/** The windows from the one that contains `from`, up to those that begin before `until`, the oldest first. */
export function windowsBetween(from: Day, until: Day, granularity: Granularity): ReportWindow[] {
  const windows: ReportWindow[] = [];
  for (let at = windowAt(from, granularity); at.start < until; at = windowAt(at.end, granularity)) windows.push(at);
  return windows;
}

/** The day of a time in epoch milliseconds. */
export function localDay(epochMs: number, zone: TimeZone): Day {
  return dayOfUtc(zone.toLocal(epochMs));
}

/** The beginning of a day in epoch milliseconds; the earliest one if its midnight occurs twice or not at all. */
export function dayBegin(day: Day, zone: TimeZone): number {
  return zone.earliest(Date.parse(day));
}

/** The time in epoch milliseconds at which all days before have certainly ended, also if the midnight occurs twice. */
export function dayBeginLatest(day: Day, zone: TimeZone): number {
  const local = Date.parse(day);
  return zone.earliest(local) + zone.spread(local);
}

/** Returns the first day that `windows.keep` retains: windows that end by then are dropped. Null if all are retained. */
export function firstRetainedDay(keep: ReportWindows['keep'], today: Day): Day | null {
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

/** The facts that determine which windows a run requests. */
interface WindowPlan {
  /** `windows` of the profile. */
  windows: ReportWindows;
  /** The stored state of each window, by its first day. */
  rows: ReadonlyMap<Day, WindowRow>;
  mode: ScanMode;
  /** When the scan began, and now; epoch milliseconds. */
  scanStartedAt: number;
  now: number;
  /** False if a request names one window: then tomorrow is not worth a request. */
  hasEnd: boolean;
}

/**
 * Returns the windows that a run requests, the newest first. A full scan requests all that were not fetched since it began,
 * an incremental one those that were never fetched or wait for an operator; both request those that may still change.
 * `until` is the day after the last one that is requested: it may include tomorrow, with which services in other time
 * zones date early rows. Pure.
 */
export function dueWindows(plan: WindowPlan): { windows: ReportWindow[]; today: Day; until: Day } {
  const { windows: profile, rows, now } = plan;
  const today = localDay(now, timeZone(profile.zone));
  const until = addDays(today, listsTomorrow(plan) ? 2 : 1);
  const retained = firstRetainedDay(profile.keep, today) ?? profile.start;
  const first = retained > profile.start ? retained : profile.start;
  const all = windowsBetween(first, until, profile.granularity);
  return { windows: all.filter((window) => isDue(rows.get(window.start), plan)).toReversed(), today, until };
}

function isDue(row: WindowRow | undefined, { mode, scanStartedAt, now }: WindowPlan): boolean {
  if (row === undefined) return true;
  // The copy does not keep windows of this age any more.
  if (row.dropped_at !== null) return false;
  if (row.fetched_at === null || row.held_at !== null) return true;
  const fetchedAt = timestampMs(row.fetched_at);
  // A time in the future does not come from this scan: the clock of this machine was put back.
  return row.is_final === 0 || (mode === 'full' && (fetchedAt < scanStartedAt || fetchedAt > now));
}

/**
 * True if tomorrow is requested. Many services refuse future days; a stored window that was fetched before it began shows
 * that this one does not. A full scan tries it, and so does a scan without stored windows.
 */
function listsTomorrow({ windows: { zone }, rows, mode, hasEnd }: WindowPlan): boolean {
  if (!hasEnd) return false;
  const newest = [...rows.values()]
    .filter(({ fetched_at }) => fetched_at !== null)
    .toSorted((a, b) => (a.window_start < b.window_start ? -1 : 1))
    .at(-1);
  if (newest === undefined || newest.fetched_at === null || mode === 'full') return true;
  return timestampMs(newest.fetched_at) < dayBegin(newest.window_start, timeZone(zone));
}

/** True if a window could no longer change when it was requested at that time. */
export function isFinalAt(requestedAt: number, { end }: ReportWindow, { restate, zone }: ReportWindows): boolean {
  return requestedAt >= dayBeginLatest(end, timeZone(zone)) + restate;
}

/** Consecutive windows that one request covers. */
export interface ReportRange {
  /** The oldest first; at least one. */
  windows: readonly ReportWindow[];
  from: Day;
  /** The day after the last requested one: the last window may not have ended. */
  to: Day;
}

/**
 * Combines the first of `due` (the newest first) and the windows just before it into one range, within the limits: `largest`
 * in days, `windows` in number. Returns it and the remaining windows (`left`). `until` is the day after the last one that
 * may be requested. Pure.
 */
export function nextRange(
  due: readonly ReportWindow[],
  { largest: maxDays, windows: maxWindows, until }: { largest: number; windows: number; until: Day },
): { range: ReportRange; left: readonly ReportWindow[] } {
  const taken: ReportWindow[] = [];
  for (const window of due) {
    const newest = taken[0] ?? window;
    const isAdjacent = taken.length === 0 || taken.at(-1)?.start === window.end;
    const days = (Date.parse(newest.end) - Date.parse(window.start)) / DAY_MS;
    const isTooLarge = days > maxDays || taken.length >= maxWindows;
    // A single window is requested however large it is.
    if (!isAdjacent || (taken.length > 0 && isTooLarge)) break;
    taken.push(window);
  }
  return { range: toRange(taken.toReversed(), until), left: due.slice(taken.length) };
}

/** Returns the two halves of a range of several windows, the newer one first; null if it is one window. */
export function splitRange({ windows, to }: ReportRange): [ReportRange, ReportRange] | null {
  if (windows.length < 2) return null;
  const middle = Math.floor(windows.length / 2);
  return [toRange(windows.slice(middle), to), toRange(windows.slice(0, middle), to)];
}

/** Returns the range without the days after this one; the same range if it has no such days, or only such days. */
export function endRangeAt(range: ReportRange, day: Day): ReportRange {
  const windows = range.windows.filter(({ start }) => start <= day);
  const until = addDays(day, 1);
  return range.to <= until || windows.length === 0 ? range : toRange(windows, until);
}

function toRange(windows: readonly ReportWindow[], until: Day): ReportRange {
  const [first, last] = [windows[0], windows.at(-1)];
  if (first === undefined || last === undefined) throw new Error('a range has a window');
  return { windows, from: first.start, to: last.end < until ? last.end : until };
}

/** Returns the parameters that request a range; `hasEnd` is false if a request names one window by its first day. */
export function rangeQuery(windows: ReportWindows, { from, to }: ReportRange, hasEnd: boolean): ExtraQuery {
  const { format, from_param, to_param, to_inclusive } = windows;
  // A service that includes the end gets the last time before the next day that the format can write.
  const beforeMs = to_inclusive ? formatStepMs(format) : 0;
  const values = {
    from: formatDayStart(windows, from, 0),
    to: hasEnd ? formatDayStart(windows, to, beforeMs) : null,
  };
  const extraQuery: Record<string, PlaceValue> = {};
  for (const [location, text] of [
    [from_param, values.from],
    [to_param, values.to],
  ]) {
    if (location == null || text == null) continue;
    const isNumber = format.startsWith('epoch_') && parsePlace(location).in === 'body';
    extraQuery[location] = isNumber ? Number(text) : text;
  }
  return { extraQuery, values };
}

/** Formats the beginning of a day, less some milliseconds, in the format of the service. */
function formatDayStart({ format, zone }: ReportWindows, day: Day, beforeMs: number): string {
  const parts = isNamedFormat(format) ? null : parsePattern(format);
  if (parts !== null && !hasOffset(parts)) return writePattern(parts, Date.parse(day) - beforeMs);
  return formatTime(dayBegin(day, timeZone(zone)) - beforeMs, { format, zone }, '');
}

/** How values of the field that dates a row are read as days. */
export interface DayReading {
  reports: TimeZone;
  /** The zone of times without an offset in the field; null for UTC. */
  field: TimeZone | null;
  /** True if that zone is unknown: then such a time counts as one in the zone of the reports. */
  isLocal: boolean;
}

export function dayReading({ times }: ResourceProfile, { field, zone }: ReportWindows): DayReading {
  return { reports: timeZone(zone), field: zoneAt(times, field), isLocal: times[field] === LOCAL };
}

const COMPACT = /^(\d{4})(\d\d)(\d\d)$/;
const DAY_LENGTH = 10;
const MONTH = /^\d{4}-\d\d$/;

/**
 * Converts a value to a day: `2026-01-31` and `20260131` are days, `2026-01` is the first day of the month, and a time is
 * the day in the zone of the reports. Null for anything else.
 */
export function toDay(value: JsonValue | bigint | undefined, reading: DayReading): Day | null {
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

/** Converts a cell of the copy to a day; its times are in UTC. */
export function cellToDay(cell: Cell, type: Column['type'], reading: DayReading): Day | null {
  if (typeof cell === 'boolean') return null;
  if (type !== 'timestamp' || typeof cell !== 'string') return toDay(cell, reading);
  const at = timestampMs(cell);
  return Number.isNaN(at) ? null : localDay(at, reading.reports);
}
