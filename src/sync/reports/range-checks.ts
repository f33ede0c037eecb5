import { SyncError } from '../../model/errors.ts';
import type { SourceRecord, JsonValue } from '../../model/json.ts';
import { isExact } from '../../rows/json/exact-number.ts';
import { fieldAt } from '../../rows/records/field-at.ts';
import { recordKey } from '../../rows/records/record-key.ts';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import type { ReportWindows } from '../../config/profile/report-windows.ts';
import { addDays, type Day, dayOf, type DayReading, type ReportRange } from './report-windows.ts';

/** The records of a response, one for each key: a page that was requested again repeats some. */
export function distinctRecords(records: readonly SourceRecord[], { id }: ResourceProfile): SourceRecord[] {
  const byKey = new Map<unknown, SourceRecord>();
  for (const record of records) {
    const found = record.aside === undefined ? recordKey(record.value, id) : { reject: null };
    byKey.set('key' in found ? found.key : record, record);
  }
  return [...byKey.values()];
}

/**
 * Refuses a response with records of days that were not requested: the service's filter, or its zone, is not what the
 * profile says. Throws `SyncError` (`window_outside`, stop) that says which.
 */
export function refuseOutside(
  records: readonly SourceRecord[],
  { from, to }: ReportRange,
  windows: ReportWindows,
  reading: DayReading,
): void {
  const days = records
    .filter(({ aside }) => aside === undefined)
    .map(({ value }) => dayOf(fieldAt(value, windows.field), reading));
  const outside = days.filter((day) => day === null || day < from || day >= to);
  if (outside.length === 0) return;
  const last = addDays(to, -1);
  const found = [...Map.groupBy(outside, (day) => day ?? 'no day')].toSorted(([a], [b]) => (a < b ? -1 : 1));
  const counts = found.slice(0, 5).map(([day, alike]) => `${alike.length} of ${day}`);
  const asked = from === last ? `of ${last}` : `of ${from} to ${last}`;
  const message = `${outside.length} of ${records.length} records that were asked for ${asked} are of other days by ${windows.field}: ${counts.join(', ')}${found.length > 5 ? ', ...' : ''}`;
  const hint = outsideHint(
    found.map(([day]) => day),
    { from, to },
    windows,
  );
  throw new SyncError('window_outside', message, { recovery: 'stop', hint });
}

function outsideHint(
  days: readonly string[],
  { from, to }: { from: Day; to: Day },
  { field, to_inclusive, zone }: ReportWindows,
): string {
  if (days.includes('no day')) return `windows.field (${field}) must name the field with a record's day`;
  const [before, after] = [addDays(from, -1), to];
  if (days.every((day) => day === after) && !to_inclusive)
    return 'the service counts the end of a range in, or its days are of another zone: set windows.to_inclusive: true, or windows.zone, in the profile';
  if (days.every((day) => day === before || day === after))
    return `they lie at the border: the days of the service are of another zone than windows.zone (${zone}), or times of the field are (times)`;
  return 'the service does not keep to the range: set windows.from_param, to_param and format as it reads them';
}

/** A sum over a range that the service states otherwise than it was counted. */
export interface TotalDifference {
  /** Field of the records. */
  field: string;
  /** Null if the response states none. */
  told: number | null;
  counted: number;
}

/** How it is stored with each window of the range, as JSON. */
export interface StatedTotals {
  from: Day;
  /** The day after the range. */
  to: Day;
  differs: TotalDifference[];
}

/** Sums of fractions differ in their last digits by the order of addition. */
const TOLERANCE = 1e-9;

/** Compares the sums that a response states (`totals`: path in the body by field) with those of its records. Pure. */
export function compareTotals(
  totals: Readonly<Record<string, string>>,
  body: JsonValue,
  records: readonly SourceRecord[],
): TotalDifference[] {
  return Object.entries(totals).flatMap(([field, path]) => {
    const stated = fieldAt(body, path) ?? null;
    const told = toNumber(stated);
    const counted = records.reduce((sum, { value }) => sum + (toNumber(fieldAt(value, field)) ?? 0), 0);
    const isEmpty = stated === null && records.length === 0;
    const isSame = told !== null && Math.abs(told - counted) <= TOLERANCE * Math.max(1, Math.abs(told));
    return isSame || isEmpty ? [] : [{ field, told, counted }];
  });
}

/** True if more is stated than listed: some services list at most so many rows per query without saying so. */
export function isShort(differs: readonly TotalDifference[]): boolean {
  return differs.some(({ told, counted }) => told !== null && Math.abs(told) > Math.abs(counted));
}

/** Many services write numbers as texts. */
function toNumber(value: JsonValue | undefined): number | null {
  if (typeof value === 'number') return value;
  const text = isExact(value) ? value.rawJSON : value;
  if (typeof text !== 'string' || text.trim() === '') return null;
  const number = Number(text);
  return Number.isFinite(number) ? number : null;
}
