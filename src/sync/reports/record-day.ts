import type { JsonValue } from '../../model/json.ts';
import type { Cell, Column } from '../../model/table.ts';
import { LOCAL, timeZone, zoneAt, type TimeZone } from '../../model/time-zone.ts';
import { timestampMs } from '../../model/timestamp-text.ts';
import { isDay } from '../../shape/columns/plain-times.ts';
import { parseInstant } from '../../shape/columns/timestamps.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import type { ReportWindows } from '../../source/report-windows.ts';
import { localDay, type Day } from './report-days.ts';

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
