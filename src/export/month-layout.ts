// Decides which views are cut into one folder per month, such as `analytics_live/month=2024-10`, and the order of rows.
import type { ViewCell } from '../database/snapshot-reader.ts';
import { type ChosenColumn, type ChosenTable, LIVE_SUFFIX } from './choose-tables.ts';

/** How a table is cut into files, and the order of its rows. */
export interface MonthLayout {
  /** The column whose month names a row's folder; null if the table is not cut by month. */
  month: ChosenColumn | null;
  orderBy: readonly ChosenColumn[];
}

const SYNCED_AT = '_synced_at';

/** `related` are the tables whose references count: a table that others refer to, such as posts, is not cut. */
export function chooseLayout(table: ChosenTable, related: readonly ChosenTable[], isByMonth: boolean): MonthLayout {
  const month = isByMonth ? monthColumn(table, related) : null;
  const keys = keyColumns(table).filter(({ type, name }) => type !== 'json' && name !== month?.name);
  return { month, orderBy: [...(month === null ? [] : [month]), ...keys] };
}

/** In a view of live rows the key precedes `_synced_at`; in other views it is the first column. */
function keyColumns({ columns }: ChosenTable): readonly ChosenColumn[] {
  const end = columns.findIndex(({ name }) => name === SYNCED_AT);
  return columns.slice(0, Math.max(1, end));
}

/**
 * Finds the date of a table of facts, such as page views per day: a date outside of its key, or a time of the service if
 * the table refers to another one. Null if other tables refer to it, because readers then join all of its months.
 */
function monthColumn(table: ChosenTable, related: readonly ChosenTable[]): ChosenColumn | null {
  const keys = keyColumns(table);
  const [stamp, ...fields] = table.columns.slice(keys.length);
  // Only views of live rows have this column there; a summary also has dates of other records.
  if (stamp?.name !== SYNCED_AT || !LIVE_SUFFIX.test(table.name)) return null;
  const key = `${table.name.replace(LIVE_SUFFIX, '')}.${keys[0]?.name ?? ''}`;
  // References from the table's own child tables are in their keys and do not count.
  const refersToKey = (other: ChosenTable): boolean =>
    other.columns.slice(keyColumns(other).length).some(({ refersTo }) => refersTo === key);
  if (related.some(refersToKey)) return null;
  const date = fields.find(({ type }) => type === 'date');
  if (date !== undefined) return date;
  const hasReference = fields.some(({ refersTo }) => refersTo !== null);
  return (hasReference ? fields.find(({ type, isSource }) => type === 'timestamp' && isSource) : undefined) ?? null;
}

/** Hive's name for rows without a value. */
const NO_MONTH = '__HIVE_DEFAULT_PARTITION__';

/** Returns `2024-10` of a date or a timestamp. */
export function monthOf(cell: ViewCell): string {
  return cell === null ? NO_MONTH : String(cell).slice(0, '2024-10'.length);
}

/** Returns the first day after the month. */
export function nextMonth(month: string): string {
  const [year = 0, number = 0] = month.split('-').map(Number);
  const [nextYear, next] = number === 12 ? [year + 1, 1] : [year, number + 1];
  return `${String(nextYear).padStart(4, '0')}-${String(next).padStart(2, '0')}-01`;
}
