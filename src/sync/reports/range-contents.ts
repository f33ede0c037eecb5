import type { PageFacts } from '../../load/page-loader.ts';
import { SyncError } from '../../model/errors.ts';
import type { SourceRecord, JsonValue } from '../../model/json.ts';
import { fieldAt } from '../../rows/records/field-at.ts';
import { recordKey } from '../../rows/records/record-key.ts';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import type { ReportWindows } from '../../config/profile/report-windows.ts';
import { tooMany, type DeleteLimits } from '../deletes/delete-limits.ts';
import { dayOf, type DayReading, addDays, windowAt, type Day, type ReportWindow } from './report-days.ts';
import type { ReportRange } from './report-ranges.ts';
import { isExact } from '../../rows/json/exact-number.ts';

/** A live row. */
export interface RowOfDay {
  day: Day;
  syncedAt: string;
}

/** What becomes of a window. */
export interface WindowContents {
  window: ReportWindow;
  /** Live rows before, and of them those that the answer does not have. */
  before: number;
  gone: string[];
  /** Afterwards. */
  rows: number;
  hasChanged: boolean;
}

/** The records of an answer, one for each key: a page that came again repeats some. */
export function distinctRecords(records: readonly SourceRecord[], { id }: Pick<ResourceProfile, 'id'>): SourceRecord[] {
  const byKey = new Map<unknown, SourceRecord>();
  for (const record of records) {
    const found = record.aside === undefined ? recordKey(record.value, id) : { reject: null };
    byKey.set('key' in found ? found.key : record, record);
  }
  return [...byKey.values()];
}

/**
 * Refuses an answer with records of other days than it was asked for: the service's filter, or its zone, is not what the
 * profile says. Throws `SyncError` (`window_outside`, stop) that tells which.
 */
export function refuseOutside(
  records: readonly SourceRecord[],
  range: ReportRange,
  { windows, reading }: { windows: ReportWindows; reading: DayReading },
): void {
  const days = records
    .filter(({ aside }) => aside === undefined)
    .map(({ value }) => dayOf(fieldAt(value, windows.field), reading));
  const outside = days.filter((day) => day === null || day < range.from || day >= range.to);
  if (outside.length === 0) return;
  const last = addDays(range.to, -1);
  const found = [...Map.groupBy(outside, (day) => day ?? 'no day')].toSorted(([a], [b]) => (a < b ? -1 : 1));
  const told = found.slice(0, 5).map(([day, of]) => `${of.length} of ${day}`);
  const asked = range.from === last ? `of ${last}` : `of ${range.from} to ${last}`;
  throw new SyncError(
    'window_outside',
    `${outside.length} of ${records.length} records that were asked for ${asked} are of other days by ${windows.field}: ${told.join(', ')}${found.length > 5 ? ', ...' : ''}`,
    {
      recovery: 'stop',
      hint: outsideHint(
        found.map(([day]) => day),
        range,
        windows,
      ),
    },
  );
}

function outsideHint(days: readonly string[], { from, to }: ReportRange, windows: ReportWindows): string {
  if (days.includes('no day')) return `windows.field (${windows.field}) must name the field with a record's day`;
  const [before, behind] = [addDays(from, -1), to];
  if (days.every((day) => day === behind) && !windows.to_inclusive)
    return 'the service counts the end of a range in, or its days are of another zone: set windows.to_inclusive: true, or windows.zone, in the profile';
  if (days.every((day) => day === before || day === behind))
    return `they lie at the border: the days of the service are of another zone than windows.zone (${windows.zone}), or times of the field are (times)`;
  return 'the service does not keep to the range: set windows.from_param, to_param and format as it reads them';
}

/** How an answer is taken over. */
interface TakenOver extends Pick<ReportWindows, 'field' | 'granularity'> {
  /** True if what it does not have is gone. */
  isWhole: boolean;
  /** False for a row that was written after the service was asked. */
  mayGo: (row: RowOfDay) => boolean;
  reading: DayReading;
}

/** What a loaded answer makes of each window of the range. */
export function contentsOf(
  before: ReadonlyMap<string, RowOfDay>,
  { keys, stated, written }: Pick<PageFacts, 'keys' | 'stated' | 'written'>,
  windows: readonly ReportWindow[],
  { isWhole, mayGo, reading, field, granularity }: TakenOver,
): WindowContents[] {
  const listed = new Set(keys);
  for (const { key } of stated) listed.delete(key);
  const gone = isWhole ? [...before].filter(([key, row]) => !listed.has(key) && mayGo(row)) : [];
  const after = new Map([...before].map(([key, { day }]) => [key, day]));
  const changed = new Set(gone.map(([, { day }]) => day));
  for (const [key] of gone) after.delete(key);
  for (const { key, value } of written) {
    const day = dayOf(fieldAt(value, field), reading);
    if (day === null) continue;
    changed.add(day).add(after.get(key) ?? day);
    after.set(key, day);
  }
  const startOf = (day: Day): Day => windowAt(day, granularity).start;
  const [was, went, is] = [
    Map.groupBy(before, ([, { day }]) => startOf(day)),
    Map.groupBy(gone, ([, { day }]) => startOf(day)),
    Map.groupBy(after, ([, day]) => startOf(day)),
  ];
  const starts = new Set([...changed].map(startOf));
  return windows.map((window) => ({
    window,
    before: was.get(window.start)?.length ?? 0,
    gone: (went.get(window.start) ?? []).map(([key]) => key),
    rows: is.get(window.start)?.length ?? 0,
    hasChanged: starts.has(window.start),
  }));
}

/** So few rows may always vanish from a window that keeps others: a part of a small number says nothing. */
const FEW = 10;

/** Why the answer for a window is held back, as a sentence; null if it counts. */
export function whyHeldBack({ before, gone, rows }: WindowContents, limits: DeleteLimits): string | null {
  if (before === 0 || gone.length === 0) return null;
  if (rows === 0) return before === 1 ? 'its only row would be deleted' : `all of its ${before} rows would be deleted`;
  return gone.length <= FEW ? null : tooMany(limits, { asked: gone.length, live: before, recent: 0 });
}

/** A sum over a range that the service tells otherwise than it was counted. */
export interface TotalDifference {
  /** Field of the records. */
  field: string;
  /** Null if the answer tells none. */
  told: number | null;
  counted: number;
}

/** How it is remembered of each window of the range, as JSON. */
export interface ToldTotals {
  from: Day;
  /** The first day behind the range. */
  to: Day;
  differs: TotalDifference[];
}

/** Sums of fractions differ in their last digits by the order in which they are added. */
const TOLERANCE = 1e-9;

/** Compares the sums that an answer tells (`totals`: path in the body by field) with those of its records. Pure. */
export function compareTotals(
  totals: Readonly<Record<string, string>>,
  body: JsonValue,
  records: readonly SourceRecord[],
): TotalDifference[] {
  return Object.entries(totals).flatMap(([field, path]) => {
    const stated = fieldAt(body, path) ?? null;
    const told = numberOf(stated);
    const counted = records.reduce((sum, { value }) => sum + (numberOf(fieldAt(value, field)) ?? 0), 0);
    const isNothing = stated === null && records.length === 0;
    const isSame = told !== null && Math.abs(told - counted) <= TOLERANCE * Math.max(1, Math.abs(told));
    return isSame || isNothing ? [] : [{ field, told, counted }];
  });
}

/** True if more is told than listed: some services list so many rows per query and do not say so. */
export function isShort(differs: readonly TotalDifference[]): boolean {
  return differs.some(({ told, counted }) => told !== null && Math.abs(told) > Math.abs(counted));
}

/** Also of a number that is written as a text, as many services do. */
function numberOf(value: JsonValue | undefined): number | null {
  if (typeof value === 'number') return value;
  const text = isExact(value) ? value.rawJSON : value;
  if (typeof text !== 'string' || text.trim() === '') return null;
  const number = Number(text);
  return Number.isFinite(number) ? number : null;
}
