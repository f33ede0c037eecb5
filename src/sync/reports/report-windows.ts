// Date arithmetic of reports: days, windows (day, week, month), due windows, and ranges that one request covers.
//
// With `granularity: week` the day 2026-01-14 belongs to the window from 2026-01-12 to 2026-01-19. Days are those of the
// zone in which the service counts. A range is several consecutive windows.
import type { ExtraQuery } from '../../checks/listing-scan.ts';
import { formatStepMs, formatTime } from '../../checks/since.ts';
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

/** The time in epoch milliseconds at which everything before the day has certainly ended. */
export function dayBeginLatest(day: Day, zone: TimeZone): number {
  const local = Date.parse(day);
  return zone.earliest(local) + zone.spread(local);
}

/** The first day that is retained: windows that end by then are not. Null if all are. */
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

export interface DayReading {
  reports: TimeZone;
  /** The zone of the field's times that name none; null for UTC. */
  field: TimeZone | null;
  /** True if the zone of such times is unknown: then it is that of the reports. */
  isLocal: boolean;
}

export function dayReading({ times }: ResourceProfile, { field, zone }: ReportWindows): DayReading {
  return { reports: timeZone(zone), field: zoneAt(times, field), isLocal: times[field] === LOCAL };
}

const COMPACT = /^(\d{4})(\d\d)(\d\d)$/;
const DAY_LENGTH = 10;
const MONTH = /^\d{4}-\d\d$/;

/**
 * The day of a value: a date, also as `20260131`, the first day of a month, or the day of a time in the zone of the
 * reports. Null for anything else.
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

/** The day of a cell, in which times are UTC. */
export function dayOfCell(cell: Cell, type: Column['type'], reading: DayReading): Day | null {
  if (typeof cell === 'boolean') return null;
  if (type !== 'timestamp' || typeof cell !== 'string') return dayOf(cell, reading);
  const at = timestampMs(cell);
  return Number.isNaN(at) ? null : localDay(at, reading.reports);
}

/** The facts that determine which windows are due. */
interface WindowPlan {
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
 * A full scan requests each window that was not fetched since it began; an incremental one those that may have changed
 * since, were never fetched, or wait for an operator. A window that may still change is always requested, also by a
 * resumed scan, so that the result is current. The windows are returned newest first; `until` is the day after the last
 * one that is requested, because early rows may be dated tomorrow. Pure.
 */
export function dueWindows(plan: WindowPlan): { windows: ReportWindow[]; today: Day; until: Day } {
  const { windows: profile, rows, now } = plan;
  const today = localDay(now, timeZone(profile.zone));
  const until = addDays(today, listsTomorrow(plan) ? 2 : 1);
  const first = [profile.start, keptFrom(profile.keep, today) ?? profile.start].toSorted().at(-1) ?? profile.start;
  const all = windowsBetween(first, until, profile.granularity);
  return { windows: all.filter((window) => isDue(rows.get(window.start), plan)).toReversed(), today, until };
}

function isDue(row: WindowRow | undefined, { mode, scanStartedAt, now }: WindowPlan): boolean {
  if (row === undefined || row.fetched_at === null || row.held_at !== null) return row?.dropped_at == null;
  if (row.dropped_at !== null) return false;
  const fetchedAt = timestampMs(row.fetched_at);
  // A future time is not of this scan: our clock was put back.
  return row.is_final === 0 || (mode === 'full' && (fetchedAt < scanStartedAt || fetchedAt > now));
}

/**
 * Many services refuse future days: a window that was fetched before it began shows that this one lists them. A full
 * scan tries it, and so does a scan without stored windows.
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
 * The newest of the windows (newest first) as one range, as many as the limits allow, and the remaining ones. `until` is
 * the day after the last one that may be requested. Pure.
 */
export function nextRange(
  due: readonly ReportWindow[],
  { largest, windows: most, until }: { largest: number; windows: number; until: Day },
): { range: ReportRange; left: readonly ReportWindow[] } {
  const taken: ReportWindow[] = [];
  for (const window of due) {
    const [newest = window] = taken;
    const isNext = taken.length === 0 || taken.at(-1)?.start === window.end;
    const isLarge = Date.parse(newest.end) - Date.parse(window.start) > largest * DAY_MS;
    if (!isNext || (taken.length > 0 && (isLarge || taken.length >= most))) break;
    taken.push(window);
  }
  return { range: rangeOf(taken.toReversed(), until), left: due.slice(taken.length) };
}

/** The two halves of a range of several windows, the newer one first; null if it is one window. */
export function halvesOf({ windows, to }: ReportRange): [ReportRange, ReportRange] | null {
  if (windows.length < 2) return null;
  const middle = Math.floor(windows.length / 2);
  return [rangeOf(windows.slice(middle), to), rangeOf(windows.slice(0, middle), to)];
}

/** A range without the days after this one; the same range if it has none, or no others. */
export function endingWith(range: ReportRange, day: Day): ReportRange {
  const windows = range.windows.filter(({ start }) => start <= day);
  const until = addDays(day, 1);
  return range.to <= until || windows.length === 0 ? range : rangeOf(windows, until);
}

function rangeOf(windows: readonly ReportWindow[], until: Day): ReportRange {
  const [first, last] = [windows[0], windows.at(-1)];
  if (first === undefined || last === undefined) throw new Error('a range has a window');
  return { windows, from: first.start, to: last.end < until ? last.end : until };
}

/** The parameters that request a range; `hasEnd` is false if the service takes one window by its first day. */
export function rangeQuery(windows: ReportWindows, { from, to }: ReportRange, hasEnd: boolean): ExtraQuery {
  const { format, from_param, to_param, to_inclusive } = windows;
  // The end of a range is its next day, or the last time before that which the format can write.
  const beforeMs = to_inclusive ? formatStepMs(format) : 0;
  const values = {
    from: formatDayStart(windows, from, 0),
    to: hasEnd ? formatDayStart(windows, to, beforeMs) : null,
  };
  const extraQuery: Record<string, PlaceValue> = {};
  for (const [place, text] of [
    [from_param, values.from],
    [to_param, values.to],
  ]) {
    if (place == null || text == null) continue;
    // A Unix time is a number in a JSON body.
    extraQuery[place] = parsePlace(place).in === 'body' && format.startsWith('epoch_') ? Number(text) : text;
  }
  return { extraQuery, values };
}

/** The beginning of a day less some milliseconds, as the service takes it. */
function formatDayStart({ format, zone }: ReportWindows, day: Day, beforeMs: number): string {
  const parts = isNamedFormat(format) ? null : parsePattern(format);
  if (parts !== null && !hasOffset(parts)) return writePattern(parts, Date.parse(day) - beforeMs);
  return formatTime(dayBegin(day, timeZone(zone)) - beforeMs, { format, zone }, '');
}
