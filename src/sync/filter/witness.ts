import type { Column } from '../../model/table.ts';
import { zoneAt } from '../../model/time-zone.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import type { LoadContext } from '../../load/load-context.ts';
import { momentOf, writtenMoment } from '../cursor/since.ts';
import type { Witness } from '../walk/filter-evidence.ts';

/** Rows looked at: some of the newest may be newer than the cursor, or be the one that is in question. */
const MOST_LOOKED_AT = 50;

/**
 * Live rows that a filter from `until` on, or from their own time on if that is earlier, must list: first those that
 * changed before it, the latest first, then those that changed after it, which a listing may not show yet. `except` is
 * left out.
 */
export async function latestWitnesses(
  context: LoadContext,
  { until, except }: { until: number; except: string | null },
): Promise<Witness[]> {
  const column = timeColumn(context);
  const table = context.owned.shape?.tables[0];
  if (column === null || table === undefined) return [];
  const keys = await context.warehouse.latestKeys(table, column, MOST_LOOKED_AT);
  const stored = await context.warehouse.stored(table, keys, column.name);
  // A column of moments holds them in UTC; any other has what the service wrote.
  const { times, updated: field } = context.profile;
  const zone = column.type === 'timestamp' ? null : zoneAt(times, field);
  const known = [...stored].map(([key, { updated }]) => ({ key, at: momentOf(String(updated), zone) }));
  const usable = known.filter(({ key, at }) => key !== except && at > -Infinity);
  const [before, after] = [usable.filter(({ at }) => at <= until), usable.filter(({ at }) => at > until)];
  return [...before.toSorted((a, b) => b.at - a.at), ...after.toSorted((a, b) => a.at - b.at)];
}

/** How many live rows a filter by time can never list. */
export async function countUntimedRows(context: LoadContext): Promise<number> {
  const column = timeColumn(context);
  const table = context.owned.shape?.tables[0];
  if (table === undefined) return 0;
  // A field that never had a value has no column.
  return column === null ? context.warehouse.count(table.name) : context.warehouse.countUntimed(table, column);
}

function timeColumn({ owned, profile }: LoadContext): Column | null {
  return owned.shape?.tables[0]?.columns.find(({ path }) => path.join('.') === profile.updated) ?? null;
}

/** The cursor from which such a row is asked for: its own, or the known one if that is earlier. */
export function cursorFor({ at }: Witness, cursor: string, { times, updated }: ResourceProfile): string {
  const zone = zoneAt(times, updated);
  return at < momentOf(cursor, zone) ? writtenMoment(at, 'as_sent', cursor, zone) : cursor;
}
