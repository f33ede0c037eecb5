import type { WarehouseReader } from '../../warehouse/reading.ts';
import type { Dictionary, RowCounts } from './dictionary.ts';

/** Counts what can be counted in an index: the copied tables, and the live views, which show their live rows. */
export async function countDictionary(
  { tables, relations }: Pick<Dictionary, 'tables' | 'relations'>,
  warehouse: Pick<WarehouseReader, 'count' | 'countDeleted' | 'countAll'>,
): Promise<RowCounts> {
  const children = new Set(relations.filter(({ kind }) => kind === 'child').map(({ from }) => from.table));
  const counts: Record<string, number> = {};
  for (const { name } of tables.filter(({ kind }) => kind === 'table')) {
    const live = children.has(name) ? await warehouse.countAll(name) : await warehouse.count(name);
    const deleted = children.has(name) ? 0 : await warehouse.countDeleted(name, '');
    counts[name] = live + deleted;
    for (const view of tables) if (view.kind === 'live' && view.table === name) counts[view.name] = live;
  }
  return counts;
}
