import type { ExtraQuery } from '../../checks/listing-walk.ts';
import type { PlaceValue, PlaceValues } from '../../pagination/page-styles/listing-request.ts';
import { timeZone } from '../../model/time-zone.ts';
import { placeOf } from '../../config/profile/basic-fields.ts';
import {
  hasOffset,
  parsePattern,
  type PatternPart,
  patternStep,
  writePattern,
} from '../../config/profile/incremental.ts';
import type { ReportWindows } from '../../config/profile/report-windows.ts';
import { addDays, type Day, dayBegin, daysBetween, type ReportWindow } from './report-days.ts';

/** Days that are asked for at once: windows that follow each other. */
export interface ReportRange {
  /** The oldest first; at least one. */
  windows: readonly ReportWindow[];
  from: Day;
  /** The first day behind those that are asked for: the last window may not be over. */
  to: Day;
}

/** What bounds a range. */
interface RangeBounds {
  /** Days. */
  largest: number;
  windows: number;
  /** Behind the last day that is asked for. */
  until: Day;
}

/** The newest of the windows (newest first) as one range, as many as the bounds allow, and those that are left. Pure. */
export function nextRange(
  due: readonly ReportWindow[],
  { largest, windows: most, until }: RangeBounds,
): { range: ReportRange; left: readonly ReportWindow[] } {
  const taken: ReportWindow[] = [];
  for (const window of due) {
    const [newest = window] = taken;
    const isNext = taken.length === 0 || taken.at(-1)?.start === window.end;
    const isLarge = daysBetween(window.start, newest.end) > largest;
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

/** A range without the days behind this one; itself if it has none, or has no others. */
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

/** What a request has besides the profile's own to ask for the range; `hasEnd` is false if it names one window only. */
export function rangeQuery(windows: ReportWindows, { from, to }: ReportRange, hasEnd: boolean): ExtraQuery {
  // The end of a range is its next day, or the last moment before that which the format shows.
  const before = windows.to_inclusive ? stepOf(windows.format) : 0;
  const values = { from: momentText(windows, from, 0), to: hasEnd ? momentText(windows, to, before) : null };
  const places: PlaceValues = {
    ...placed(windows.from_param, values.from, windows),
    ...(values.to === null ? {} : placed(windows.to_param, values.to, windows)),
  };
  return { extraQuery: places, values };
}

function placed(place: string | null, text: string, { format }: ReportWindows): PlaceValues {
  if (place === null) return {};
  // A Unix time is a number in a JSON body.
  const value: PlaceValue = placeOf(place).in === 'body' && format.startsWith('epoch_') ? Number(text) : text;
  return { [place]: value };
}

/** The first moment of a day less so many milliseconds, as the service takes it. */
function momentText({ format, zone: name }: ReportWindows, day: Day, before: number): string {
  const zone = timeZone(name);
  const parts = patternOf(format);
  if (parts !== null && !hasOffset(parts)) return writePattern(parts, Date.parse(day) - before);
  const at = dayBegin(day, zone) - before;
  if (parts === null)
    return format === 'iso' ? new Date(at).toISOString() : String(Math.floor(at / (NAMED[format] ?? 1)));
  const local = zone.toLocal(at);
  return writePattern(parts, local, Math.round((local - at) / 60_000));
}

/** Milliseconds of a unit of the Unix times. */
const NAMED: Readonly<Record<string, number>> = { epoch_s: 1_000, epoch_ms: 1 };

function patternOf(format: string): PatternPart[] | null {
  return format === 'iso' || Object.hasOwn(NAMED, format) ? null : parsePattern(format);
}

function stepOf(format: string): number {
  const parts = patternOf(format);
  return parts === null ? (NAMED[format] ?? 1) : patternStep(parts);
}
