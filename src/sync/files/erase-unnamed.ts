import { storesOf } from '../../settings/file-stores.ts';
import { forgetObjects, unnamedObjects } from '../../state/files/file-leavings.ts';
import { FILES_LEASE } from '../../state/files/record-files.ts';
import { acquireLease } from '../../state/leases.ts';
import { ownedStores, type KeptFiles } from './owned-stores.ts';

/**
 * Takes the contents out of their stores that are remembered and that no file names any more, such as those of records
 * that were forgotten, whatever `grace` says. Returns how many are left, in stores that the settings do not name. Throws
 * `lease_held` while files are being fetched, and what a store throws that cannot be used.
 */
export async function eraseUnnamed(files: Omit<KeptFiles, 'signal'>): Promise<number> {
  const { warehouse, settings, clock } = files;
  const storeAt = ownedStores(files);
  if ((await unnamedObjects(warehouse.own)).length === 0) return 0;
  const lease = await acquireLease(warehouse, FILES_LEASE, clock);
  try {
    const stores = new Map(storesOf(settings).map((address) => [address.name, address]));
    const byStore = Map.groupBy(await unnamedObjects(warehouse.own), ({ store }) => store);
    let left = 0;
    for (const [name, objects] of byStore) {
      const address = stores.get(name);
      if (address === undefined) left += objects.length;
      if (address === undefined) continue;
      const store = await storeAt(address);
      for (const { sha256 } of objects) await store.remove(sha256);
      // Last: what was not taken out yet is found again.
      const hashes = objects.map(({ sha256 }) => sha256);
      await warehouse.apply(forgetObjects(warehouse.own, name, hashes), lease.proof());
    }
    return left;
  } finally {
    await lease.release();
  }
}
