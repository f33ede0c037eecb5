import { SyncError } from '../model/errors.ts';
import { readTables } from '../state/column-catalog.ts';
import type { Warehouse } from '../warehouse/warehouse.ts';
import type { Holding, Holdings } from '../state/owned-resource.ts';

/**
 * Runs `work` as the owner of a resource, with its tables known; and again where the database was set back meanwhile.
 * Throws `SyncError('lease_held')` where another process owns it; and what `work` throws, after `lease_lost` with the
 * resource taken anew if that can be.
 */
export async function withHolding<T>(
  { holdings, warehouse }: { holdings: Holdings; warehouse: Warehouse },
  resource: string,
  work: (holding: Holding) => Promise<T>,
): Promise<T> {
  const holding = await holdings.take(resource);
  try {
    await holding.takeTurn(async () => {
      holding.shape ??= await readTables(warehouse, resource);
    });
    try {
      return await work(holding);
    } catch (error) {
      if (!(await holding.recover(error))) throw error;
      return await work(holding);
    }
  } catch (error) {
    // Where it is still another's, the next attempt is told so.
    if (isLost(error)) await holdings.retake(resource).catch(() => undefined);
    throw error;
  } finally {
    await holdings.giveBack(resource, true);
  }
}

function isLost(error: unknown): boolean {
  return error instanceof SyncError && error.code === 'lease_lost';
}
