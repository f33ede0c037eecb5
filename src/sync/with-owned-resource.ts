import { SyncError } from '../model/errors.ts';
import { readTables } from '../state/column-catalog.ts';
import type { Warehouse } from '../warehouse/warehouse.ts';
import type { OwnedResource, OwnedResources } from '../state/owned-resource.ts';

/**
 * Runs `work` as the owner of a resource, with its tables known; and again where the database was set back meanwhile.
 * Throws `SyncError('lease_held')` where another process owns it; and what `work` throws, after `lease_lost` with the
 * resource taken anew if that can be.
 */
export async function withOwnedResource<T>(
  { ownedResources, warehouse }: { ownedResources: OwnedResources; warehouse: Warehouse },
  resource: string,
  work: (owned: OwnedResource) => Promise<T>,
): Promise<T> {
  const owned = await ownedResources.acquire(resource);
  try {
    await owned.takeTurn(async () => {
      owned.shape ??= await readTables(warehouse, resource);
    });
    try {
      return await work(owned);
    } catch (error) {
      if (!(await owned.recover(error))) throw error;
      return await work(owned);
    }
  } catch (error) {
    // Where it is still another's, the next attempt is told so.
    if (isLost(error)) await ownedResources.reacquire(resource).catch(() => undefined);
    throw error;
  } finally {
    await ownedResources.release(resource, true);
  }
}

function isLost(error: unknown): boolean {
  return error instanceof SyncError && error.code === 'lease_lost';
}
