import type { Clock } from '../model/clock.ts';
import type { Warehouse } from '../warehouse/warehouse.ts';
import { readTables } from './column-catalog.ts';
import { acquireLease } from './leases.ts';
import type { OwnedResource, OwnedResources } from './owned-resource.ts';
import { rangeLease } from './ranges.ts';
import { countOpenRejects } from './rejects.ts';
import { shareTables } from './shared-tables.ts';
import { alone } from './turns.ts';

interface RangeToOwn {
  warehouse: Warehouse;
  clock: Clock;
  resource: string;
  range: number;
  signal: AbortSignal;
  owners: Pick<OwnedResources, 'readForgotten'>;
}

/**
 * A resource as the owner of one of its ranges has it: a lease of its own, so that one who was frozen and replaced can
 * no longer write, beside others who write the same tables. Throws `lease_held` if another process walks the range.
 */
export async function ownRange(options: RangeToOwn): Promise<OwnedResource> {
  const { warehouse, clock, resource, range, signal, owners } = options;
  const { own } = warehouse;
  const lease = await acquireLease(warehouse, rangeLease(resource, range), clock);
  try {
    const shared = await shareTables(warehouse, resource, clock, signal);
    let forgotten = await owners.readForgotten(resource);
    let turns = 0;
    return {
      resource,
      shared,
      shape: await readTables(warehouse, resource),
      years: null,
      openRejects: await countOpenRejects(own, resource),
      watches: new Set(),
      besides: [],
      get forgotten() {
        return forgotten;
      },
      rereadForgotten: async () => {
        forgotten = await owners.readForgotten(resource);
      },
      get turns() {
        return turns;
      },
      // Nobody else uses it.
      takeTurn: (work) => {
        turns += 1;
        return work();
      },
      sendInTurn: (_, work) => {
        turns += 1;
        return alone(work);
      },
      get oldestTurn() {
        return turns;
      },
      lease: () => lease.proof(),
      recover: () => Promise.resolve(false),
      reacquire: () => Promise.resolve(),
      release: () => lease.release(),
    };
  } catch (error) {
    await lease.release();
    throw error;
  }
}
