import PQueue from 'p-queue';
import type { Clock } from '../model/clock.ts';
import { SyncError } from '../model/errors.ts';
import type { Warehouse } from '../warehouse/warehouse.ts';
import { acquireLease, type Lease } from './leases.ts';
import type { SharedTables } from './owned-resource.ts';
import { growthLease } from './ranges.ts';
import { readGrowths } from './view-catalog.ts';

/** Between two looks whether another process is done with the tables. */
const LOOK_MS = 100;

/** What a process holds itself it takes over, as if an earlier one had left it: so its own take turns before. */
const turns = new Map<string, PQueue>();

function turnsOf(resource: string): PQueue {
  const known = turns.get(resource) ?? new PQueue({ concurrency: 1 });
  turns.set(resource, known);
  return known;
}

/** For a process that writes a resource beside others. The shape must be read behind this. */
export async function shareTables(
  warehouse: Warehouse,
  resource: string,
  clock: Clock,
  signal: AbortSignal,
): Promise<SharedTables> {
  const acquire = async (): Promise<Lease> => {
    for (;;) {
      try {
        return await acquireLease(warehouse, growthLease(resource), clock);
      } catch (error) {
        if (!(error instanceof SyncError) || error.code !== 'lease_held') throw error;
      }
      await clock.sleep(LOOK_MS, signal);
    }
  };
  return {
    growths: await readGrowths(warehouse.own),
    grow: (work) =>
      turnsOf(resource).add(async () => {
        const lease = await acquire();
        try {
          return await work(() => lease.proof());
        } finally {
          await lease.release();
        }
      }),
  };
}
