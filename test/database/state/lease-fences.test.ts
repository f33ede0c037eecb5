import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../../src/observe/system-clock.ts';
import { acquireLease, type Lease } from '../../../src/database/state/leases.ts';
import type { Warehouse } from '../../../src/database/warehouse.ts';
import { DATABASES, warehouseOn } from '../../support/databases.ts';
import { keepState } from '../../support/earlier-state.ts';

const LOST = { name: 'SyncError', code: 'lease_lost' };

async function leaseOn(warehouse: Warehouse): Promise<Lease> {
  const lease = await acquireLease(warehouse, 'content', systemClock);
  onTestFinished(() => lease.release());
  return lease;
}

describe.for(DATABASES)('a lease in a database on $name that forgets', (database) => {
  it('keeps its owner out whose number was given again to another one', async () => {
    const { warehouse, address } = await warehouseOn(database);
    const before = await keepState(address);
    const first = await leaseOn(warehouse);
    await before.putBack();
    expect(await first.isSetBack()).toBe(true);
    const { warehouse: others } = await warehouseOn(database, address);
    const second = await leaseOn(others);
    expect(second.proof().token).toBe(first.proof().token);
    await expect(warehouse.apply([], first.proof())).rejects.toMatchObject(LOST);
    // What stands there is another one's, who must not be thrown out.
    expect(await first.isSetBack()).toBe(false);
    await first.release();
    await others.apply([], second.proof());
  });

  it('lets nothing be written that rests on what it has forgotten', async () => {
    const { warehouse, address } = await warehouseOn(database);
    const lease = await leaseOn(warehouse);
    await warehouse.apply([], lease.proof());
    const after = await keepState(address);
    await after.putBack();
    await warehouse.apply([], lease.proof());
    expect(await lease.isSetBack()).toBe(false);
    await after.putBack();
    await expect(warehouse.apply([], lease.proof())).rejects.toMatchObject(LOST);
    expect(await lease.isSetBack()).toBe(true);
  });
});
