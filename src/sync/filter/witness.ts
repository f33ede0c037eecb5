import type { Column, ResourceShape } from '../../model/table.ts';
import { zoneAt } from '../../model/time-zone.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import type { Warehouse } from '../../warehouse/warehouse.ts';
import { momentOf } from '../since.ts';

/** A record that a filter must list where it is asked for what changed at `at` (epoch milliseconds) or later. */
export interface Witness {
  key: string;
  at: number;
}

/** The rows among which a witness is looked for. */
export interface RowsOf {
  warehouse: Warehouse;
  /** Null where nothing was copied yet. */
  shape: ResourceShape | null;
  profile: ResourceProfile;
}

/** Rows looked at: some of the newest may have a time that is still to come, or be the one that is in question. */
const MOST_LOOKED_AT = 50;

/** Live rows that changed last, but not after `until`, the last one first; `except` is not among them. */
export async function latestWitnesses(
  rows: RowsOf,
  { until, except }: { until: number; except: string | null },
): Promise<Witness[]> {
  const column = timeColumn(rows);
  const table = rows.shape?.tables[0];
  if (column === null || table === undefined) return [];
  const keys = await rows.warehouse.latestKeys(table, column, MOST_LOOKED_AT);
  const stored = await rows.warehouse.stored(table, keys, column.name);
  // A column of moments holds them in UTC; any other has what the service wrote.
  const { times, updated: field } = rows.profile;
  const zone = column.type === 'timestamp' ? null : zoneAt(times, field);
  const known = [...stored].map(([key, { updated }]) => ({ key, at: momentOf(String(updated), zone) }));
  const usable = known.filter(({ key, at }) => key !== except && at > -Infinity && at <= until);
  return usable.toSorted((a, b) => b.at - a.at);
}

/** How many live rows a filter by time can never list. */
export async function countUntimedRows(rows: RowsOf): Promise<number> {
  const column = timeColumn(rows);
  const table = rows.shape?.tables[0];
  if (table === undefined) return 0;
  // A field that never had a value has no column.
  return column === null ? rows.warehouse.count(table.name) : rows.warehouse.countUntimed(table, column);
}

function timeColumn({ shape, profile }: RowsOf): Column | null {
  return shape?.tables[0]?.columns.find(({ path }) => path.join('.') === profile.updated) ?? null;
}
