import type { Clock } from '../../model/clock.ts';
import { acquireLease, type Lease } from '../../state/leases.ts';
import type { Warehouse } from '../../warehouse/warehouse.ts';

/** All resources of a warehouse, owned, so that nobody writes to any. */
export interface SourceLeases {
  /** The state in which the warehouse was before it was owned, as `ownersOf` tells it. */
  before: string;
  /** The same from now on. */
  now: string;
  release(): Promise<void>;
}

/**
 * Who has owned which resource last: whoever writes to a resource becomes its owner first, so that the same text means
 * that nothing was written in between.
 */
export async function ownersOf({ own }: Warehouse): Promise<string> {
  const columns = ['name', 'token', 'acquired_at'] as const;
  return JSON.stringify(await own.selectFrom('_sync_leases').select(columns).orderBy('name').execute());
}

/** Becomes the owner of all resources. Throws `SyncError('lease_held')` where another process owns one. */
export async function leaseAll(
  warehouse: Warehouse,
  resources: readonly string[],
  clock: Clock,
): Promise<SourceLeases> {
  const before = await ownersOf(warehouse);
  const leases: Lease[] = [];
  const release = async (): Promise<void> => {
    await Promise.all(leases.map((lease) => lease.release()));
  };
  try {
    for (const resource of resources) leases.push(await acquireLease(warehouse, resource, clock));
    return { before, now: await ownersOf(warehouse), release };
  } catch (error) {
    await release();
    throw error;
  }
}
