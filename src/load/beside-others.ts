import { SyncError } from '../model/errors.ts';
import { readTables } from '../state/column-catalog.ts';
import type { OwnedResource } from '../state/owned-resource.ts';
import { readGrowths } from '../state/view-catalog.ts';
import { PAGE_OUTDATED } from '../warehouse/page-outdated.ts';
import type { LoadContext } from './load-context.ts';

/** So often a page is compared again because another process has written some of its rows. */
const MOST_AGAIN = 20;

/** Loads a page, and again if other processes have changed rows or tables since it was compared with them. */
export async function untilCurrent<T>(context: LoadContext, load: (isFirst: boolean) => Promise<T>): Promise<T> {
  for (let again = 0; ; again += 1) {
    try {
      return await load(again === 0);
    } catch (error) {
      const isOutdated = error instanceof SyncError && error.code === PAGE_OUTDATED;
      if (!isOutdated || context.owned.shared === null || again === MOST_AGAIN) throw error;
    }
    await rereadTables(context);
  }
}

/**
 * Runs what makes tables grow: while other processes write them, one at a time, with the tables as they are by then.
 */
export async function growAlone<T>(context: LoadContext, grow: (alone: LoadContext) => Promise<T>): Promise<T> {
  const { owned, warehouse } = context;
  const { shared } = owned;
  if (shared === null) return grow(context);
  return shared.grow(async (lease) => {
    await rereadTables(context);
    const alone: OwnedResource = Object.create(owned, { lease: { value: lease }, shared: { value: null } });
    const grown = await grow({ ...context, owned: alone });
    owned.shape = alone.shape;
    shared.growths = await readGrowths(warehouse.own);
    return grown;
  });
}

/** What is read first is the older. */
async function rereadTables({ warehouse, owned }: LoadContext): Promise<void> {
  if (owned.shared === null) return;
  owned.shared.growths = await readGrowths(warehouse.own);
  owned.shape = await readTables(warehouse, owned.resource);
}
