import type { ViewCell } from '../database/snapshot-reader.ts';
import { LIVE, type ChosenColumn, type ChosenTable } from './choose-tables.ts';

/** By which column a table is cut into slices, and in what order its rows are written. */
export interface Layout {
  /** The column whose month names a row's slice; null if the table is not cut by month. */
  month: ChosenColumn | null;
  /** The text by which the table is cut otherwise; null if there is none. */
  key: ChosenColumn | null;
  orderBy: readonly ChosenColumn[];
}

/** Hive's name for rows without a value. */
export const NO_MONTH = '__HIVE_DEFAULT_PARTITION__';
const SYNCED_AT = '_synced_at';

/**
 * A table of facts is cut by month: one with a date that is no part of its key, or, if a relation leads from it to another
 * table and none to it, with a time of the service's. `all` are those that relations may lead from.
 */
export function layoutOf(table: ChosenTable, all: readonly ChosenTable[], isByMonth: boolean): Layout {
  const month = isByMonth ? monthColumn(table, all) : null;
  const [first] = table.columns;
  const key = month === null && first?.type === 'text' ? first : null;
  const keys = keyColumns(table).filter(({ type }) => type !== 'json');
  return {
    month,
    key,
    orderBy: [...(month === null ? [] : [month]), ...keys.filter(({ name }) => name !== month?.name)],
  };
}

/** Those before the stamp of a view of live rows; the first one of any other. */
function keyColumns({ columns }: ChosenTable): readonly ChosenColumn[] {
  const end = columns.findIndex(({ name }) => name === SYNCED_AT);
  return columns.slice(0, Math.max(1, end));
}

function monthColumn(table: ChosenTable, all: readonly ChosenTable[]): ChosenColumn | null {
  const keys = keyColumns(table);
  const [stamp, ...sources] = table.columns.slice(keys.length);
  // A summary has the dates of other records too.
  if (stamp?.name !== SYNCED_AT || !LIVE.test(table.name) || isReferredTo(keys[0], table, all)) return null;
  const date = sources.find(({ type }) => type === 'date');
  if (date !== undefined) return date;
  const leadsOn = sources.some(({ refersTo }) => refersTo !== null);
  return (leadsOn ? sources.find(({ type, isSource }) => type === 'timestamp' && isSource) : undefined) ?? null;
}

/** True if a column of another resource holds the table's key; those of its own child tables do not count. */
function isReferredTo(key: ChosenColumn | undefined, { name }: ChosenTable, all: readonly ChosenTable[]): boolean {
  const place = `${name.replace(LIVE, '')}.${key?.name ?? ''}`;
  return all.some((other) => other.columns.slice(keyColumns(other).length).some(({ refersTo }) => refersTo === place));
}

/** `2024-10` of a date or a moment. */
export function monthOf(cell: ViewCell): string {
  return cell === null ? NO_MONTH : String(cell).slice(0, '2024-10'.length);
}

/** The first day of the month after `2024-10`. */
export function nextMonth(month: string): string {
  const [year = 0, number = 0] = month.split('-').map(Number);
  const at = number === 12 ? [year + 1, 1] : [year, number + 1];
  return `${String(at[0]).padStart(4, '0')}-${String(at[1]).padStart(2, '0')}-01`;
}
