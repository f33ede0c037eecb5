import { describe, expect, it } from 'vitest';
import { SyncError } from '../../../src/model/errors.ts';
import { systemClock } from '../../../src/observe/system-clock.ts';
import { ownResources, type OwnedResources } from '../../../src/database/state/owned-resource.ts';
import type { Warehouse } from '../../../src/database/warehouse.ts';
import { DATABASES, warehouseOn } from '../../support/databases.ts';

async function isFree({ own }: Warehouse): Promise<boolean> {
  const lease = await own.selectFrom('_sync_leases').select('expires_at').executeTakeFirstOrThrow();
  return lease.expires_at < '2000';
}

function owning(warehouse: Warehouse): OwnedResources {
  return ownResources(warehouse, systemClock);
}

describe.for(DATABASES)('an owned resource on $name', (database) => {
  it('has one shape and one line of turns for all its users', async () => {
    const { warehouse } = await warehouseOn(database);
    const resources = owning(warehouse);
    const [first, second] = [await resources.acquire('content'), await resources.acquire('content')];
    const order: string[] = [];
    const slow = first.takeTurn(async () => {
      first.shape = { resource: 'content', tables: [] };
      await Promise.resolve();
      order.push('first');
    });
    await Promise.all([slow, second.takeTurn(() => Promise.resolve(order.push('second')))]);
    expect(order).toEqual(['first', 'second']);
    expect(second.shape).toEqual({ resource: 'content', tables: [] });
    await first.release();
    await second.release();
  });

  it('is owned anew after another process has taken it over', async () => {
    const { warehouse } = await warehouseOn(database);
    const resources = owning(warehouse);
    const frozen = await resources.acquire('content');
    await warehouse.own.updateTable('_sync_leases').set({ expires_at: '2000-01-01 00:00:00.000' }).execute();
    const other = await owning(warehouse).acquire('content');
    await expect(warehouse.apply([], frozen.lease())).rejects.toMatchObject({ code: 'lease_lost' });
    expect(await frozen.recover(new SyncError('lease_lost', 'lost', { recovery: 'stop' }))).toBe(false);
    await other.release();
    await frozen.reacquire();
    const anew = await resources.acquire('content');
    await warehouse.apply([], anew.lease());
    await anew.release();
    await frozen.release();
    expect(await isFree(warehouse)).toBe(true);
  });

  it('does not take an error of the service for a database that was set back', async () => {
    const { warehouse } = await warehouseOn(database);
    const owned = await owning(warehouse).acquire('content');
    await warehouse.apply([], owned.lease());
    await warehouse.own.updateTable('_sync_leases').set({ commits: 0 }).execute();
    expect(await owned.recover(new SyncError('bad_request', 'refused', { recovery: 'stop' }))).toBe(false);
    expect(await owned.recover(new Error('no such table'))).toBe(true);
    await owned.release();
  });
});
