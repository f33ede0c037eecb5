import type { HistoryPolicy } from '../../src/model/vocabulary.ts';
import type { OwnedResource } from '../../src/database/state/owned-resource.ts';
import { softDeleteStatements } from '../../src/database/state/stored-rows.ts';
import type { Warehouse } from '../../src/database/warehouse.ts';

/** Marks those of the records as deleted that are live. Returns their keys. */
export async function softDelete(
  warehouse: Warehouse,
  owned: OwnedResource,
  gone: { keys: readonly string[]; at: string; deletedAt?: string | null; history: HistoryPolicy },
): Promise<string[]> {
  const { resource, shape } = owned;
  const [table, ...children] = shape?.tables ?? [];
  if (table === undefined) throw new Error('no table');
  const stored = await warehouse.rows.stored(table, gone.keys, []);
  const keys = gone.keys.filter((key) => stored.get(key)?.deletedAt === null);
  const rows = { deletedAt: null, ...gone, resource, table, children, keys };
  await warehouse.apply(softDeleteStatements(warehouse, rows), owned.lease());
  return keys;
}
