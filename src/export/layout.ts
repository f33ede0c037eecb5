import type { ViewCell } from '../database/snapshot-reader.ts';
import { type ChosenColumn, type ChosenTable, isLiveView, liveTableName } from './choose-tables.ts';

/** How a table is cut into files, and the order of its rows. */
export interface Layout {
  /** The column whose month names a row's folder; null if the table is not cut by month. */
  month: ChosenColumn | null;
  orderBy: readonly ChosenColumn[];
}

/** Hive's name for rows without a value. */
const NO_MONTH = '__HIVE_DEFAULT_PARTITION__';
const SYNCED_AT = '_synced_at';

/**
 * A table of facts is cut by month. It has a date outside its key, or it has a time of the service and refers to another
 * table; no table refers to it. `all` are the tables whose references count.
 */
export function layoutOf(table: ChosenTable, all: readonly ChosenTable[], isByMonth: boolean): Layout {
  const month = isByMonth ? monthColumn(table, all) : null;
  const keys = keyColumns(table).filter(({ type, name }) => type !== 'json' && name !== month?.name);
  return { month, orderBy: [...(month === null ? [] : [month]), ...keys] };
}

/** In a view of live rows the key precedes `_synced_at`; in other tables it is the first column. */
function keyColumns({ columns }: ChosenTable): readonly ChosenColumn[] {
  const end = columns.findIndex(({ name }) => name === SYNCED_AT);
  return columns.slice(0, Math.max(1, end));
}

function monthColumn(table: ChosenTable, all: readonly ChosenTable[]): ChosenColumn | null {
  const keys = keyColumns(table);
  const [stamp, ...sources] = table.columns.slice(keys.length);
  // A summary also has dates of other records.
  if (stamp?.name !== SYNCED_AT || !isLiveView(table.name)) return null;
  const key = `${liveTableName(table.name)}.${keys[0]?.name ?? ''}`;
  // References from the table's own child tables are in their keys and do not count.
  const refersToKey = (other: ChosenTable): boolean =>
    other.columns.slice(keyColumns(other).length).some(({ refersTo }) => refersTo === key);
  if (all.some(refersToKey)) return null;
  const date = sources.find(({ type }) => type === 'date');
  if (date !== undefined) return date;
  const hasReference = sources.some(({ refersTo }) => refersTo !== null);
  return (hasReference ? sources.find(({ type, isSource }) => type === 'timestamp' && isSource) : undefined) ?? null;
}

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
