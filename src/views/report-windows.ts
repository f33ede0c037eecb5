// The view `_windows` of a report, and the column `is_final`.
import type { Column, TableShape } from '../model/table.ts';
import type { ColumnType } from '../model/vocabulary.ts';
import { updatedColumns } from '../rows/columns/updated-time.ts';
import { ownColumn, type View, type ViewColumn, type ViewedResource, type ViewModel } from './view.ts';

/** `<resource>_windows` for each resource that is requested by windows: the state of each window. */
export function windowViews({ resources, dialect }: ViewModel): View[] {
  const day = (name: string): string => dialect.day(`w."${name}"`);
  const columns = [
    ownColumn('window_start', 'date', day('window_start'), 'The first day of the window.'),
    ownColumn('window_end', 'date', day('window_end'), 'The first day after it.'),
    ownColumn('is_final', 'boolean', 'w."is_final" = 1', 'False while the service may still change it.'),
    ownColumn('rows', 'integer', 'w."rows"', 'Live rows when it was last read; of a dropped window, those it had.'),
    ownColumn('fetched_at', 'timestamp', 'w."fetched_at"', 'When the rows were requested, UTC.'),
    ownColumn('changed_at', 'timestamp', 'w."changed_at"', 'When its rows last changed, UTC.'),
    ownColumn('dropped_at', 'timestamp', 'w."dropped_at"', 'When its rows were removed from the copy by age, UTC.'),
    ownColumn('held_at', 'timestamp', 'w."held_at"', 'Since when a change waits for a user to confirm it, UTC.'),
    ownColumn('is_capped', 'boolean', 'w."capped" = 1', 'True if the service may not have listed all of its rows.'),
    ownColumn('totals', 'text', 'w."totals"', 'Sums of the service that differ from those of the rows, as JSON.'),
  ];
  return resources.flatMap(({ resource, profile, tables: [own] }) => {
    if (profile.windows === null || own === undefined) return [];
    const description = `The windows of the ${resource} reports, one a row: when each was read, and whether it may still change.`;
    const from = ` FROM "_sync_windows" AS w WHERE w."resource" = ${dialect.literal(resource)}`;
    return [{ name: `${own.name}_windows`, resource: null, description, columns, from }];
  });
}

/**
 * `is_final` for a view of the resource's own table, whose alias is `row`; empty if the field of the window has no days.
 * Most rows are older than the first window that may change, which one subquery finds.
 */
export function finalColumn(
  { dialect }: ViewModel,
  { resource, profile, tables: [own] }: ViewedResource,
  row: string,
): ViewColumn[] {
  const column = own === undefined || profile.windows === null ? null : windowColumn(own, profile.windows);
  if (column === null) return [];
  const cell = `${row}${dialect.id(column.name)}`;
  const day = column.type === 'date' ? cell : dialect.converted(cell, column.type, 'date');
  const open = ` FROM "_sync_windows" AS w WHERE w."resource" = ${dialect.literal(resource)} AND w."is_final" = 0 AND w."dropped_at" IS NULL`;
  const first = `(SELECT ${dialect.day('min(w."window_start")')}${open})`;
  const inOne = `${day} >= ${dialect.day('w."window_start"')} AND ${day} < ${dialect.day('w."window_end"')}`;
  const sql = `CASE WHEN ${day} IS NULL THEN NULL WHEN ${day} < ${first} THEN 1 = 1 ELSE NOT EXISTS (SELECT 1${open} AND ${inOne}) END`;
  return [ownColumn('is_final', 'boolean', sql, 'False while the service may still change the window of the row.')];
}

/** Types that contain days. */
const DAYS: ReadonlySet<ColumnType> = new Set(['date', 'timestamp', 'text']);

/** Returns the column with the day of a row; null if it has none, or if its days are in another zone than UTC. */
function windowColumn(table: TableShape, { field, zone }: { field: string; zone: string }): Column | null {
  const [column] = updatedColumns(table.columns, { updated: field });
  if (column === undefined || !DAYS.has(column.type)) return null;
  // Databases convert timestamps to days in UTC.
  return column.type === 'timestamp' && zone !== 'UTC' ? null : column;
}
