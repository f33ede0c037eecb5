// Removes stored files that are not needed any more: `pruneFiles` (`content-sync files prune`) those that were replaced or
// deleted some time ago (`files.grace`), and `eraseUnreferenced` at once those of erased records.
import { storesOf } from '../../config/profile/file-fields.ts';
import type { Profile } from '../../config/profile/profile.ts';
import {
  countReplacedContents,
  deleteReplacedContents,
  findKnownHashes,
  forgetObjects,
  forgetOldUnreferenced,
  readStoreNames,
  readUnreferencedObjects,
} from '../../database/state/file-contents.ts';
import { FILES_LEASE, resourcesWithFiles } from '../../database/state/files.ts';
import { acquireLease, type Lease } from '../../database/state/leases.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import type { ObjectStore, StoredObject } from '../../object-store/object-store.ts';
import { createOwnedStoreOpener, findUnreferenced, type SourceFiles } from './owned-stores.ts';

/** What pruning has removed; sizes in bytes. */
export interface FilesPruned {
  /** Rows of earlier contents. */
  rows: number;
  /** Contents that no row names. */
  objects: number;
  bytes: number;
  /** Interrupted downloads that were removed. */
  unfinished: number;
  /** Stores that the settings no longer name: nothing is removed there. */
  unnamed_stores: readonly string[];
}

interface Pruning extends SourceFiles {
  lease: Lease;
  /** Epoch milliseconds: contents that were replaced or stored before this time are removed. */
  before: number;
  pruned: FilesPruned;
}

/**
 * Removes contents that were replaced longer than `grace` ago, unless their resource keeps its history, and objects that no
 * row names. Throws `lease_held` while files are being fetched, and the error of a store that cannot be used.
 */
export async function pruneFiles(files: SourceFiles, profile: Profile): Promise<FilesPruned> {
  const { settings, clock, warehouse } = files;
  const { own } = warehouse;
  const lease = await acquireLease(warehouse, FILES_LEASE, clock);
  try {
    const stores = await Promise.all(storesOf(settings).map(createOwnedStoreOpener(files)));
    const before = clock.now() - settings.grace;
    const pruned = { rows: 0, objects: 0, bytes: 0, unfinished: 0 };
    for (const resource of await resourcesWithFiles(own)) {
      const history = profile.resources[resource]?.history;
      if (history === undefined || history === 'all') continue;
      pruned.rows += await countReplacedContents(own, resource, timestampText(before));
      await warehouse.apply([deleteReplacedContents(own, resource, timestampText(before))], lease.proof());
    }
    const names = new Set(stores.map(({ name }) => name));
    const unnamed_stores = (await readStoreNames(own)).filter((store) => !names.has(store));
    const pruning = { ...files, lease, before, pruned: { ...pruned, unnamed_stores } };
    for (const store of stores) await pruneStore(pruning, store);
    return pruning.pruned;
  } finally {
    await lease.release();
  }
}

async function pruneStore(pruning: Pruning, store: ObjectStore): Promise<void> {
  const { warehouse, settings, before, lease, pruned, signal } = pruning;
  for await (const unreferenced of findUnreferenced(warehouse, store)) {
    signal.throwIfAborted();
    await pruneObjects(pruning, store, unreferenced);
  }
  await warehouse.apply(forgetOldUnreferenced(warehouse.own, store.name, timestampText(before)), lease.proof());
  pruned.unfinished += await store.removeUnfinished(settings.grace);
}

/**
 * Removes objects without a row. If the warehouse has noted that a row named the object once, it is removed at once; others
 * stay for `grace`, because they may be newer than a warehouse that was restored from a backup.
 */
async function pruneObjects(
  { warehouse, before, lease, pruned }: Pruning,
  store: ObjectStore,
  unreferenced: readonly StoredObject[],
): Promise<void> {
  const { own } = warehouse;
  const hashes = unreferenced.map(({ sha256 }) => sha256);
  const noted = await findKnownHashes(own, '_sync_file_objects', store.name, hashes);
  const removed = unreferenced.filter(({ sha256, storedAt }) => noted.has(sha256) || storedAt < before);
  if (removed.length === 0) return;
  const removedHashes = removed.map(({ sha256 }) => sha256);
  // This checks the lease just before the removal, so that no other process stores rows for these objects meanwhile. If the
  // process crashes after this statement, the objects stay until `grace` has passed.
  await warehouse.apply(forgetObjects(own, store.name, removedHashes), lease.proof());
  for (const { sha256, bytes } of removed) {
    await store.remove(sha256);
    pruned.objects += 1;
    pruned.bytes += bytes;
  }
}

/**
 * Removes the contents that no row names any more, without waiting for `grace`. Returns how many remain, because they are in
 * stores that the settings do not name. Throws `lease_held` while files are being fetched, and the error of a store.
 */
export async function eraseUnreferenced(files: Omit<SourceFiles, 'signal'>): Promise<number> {
  const { warehouse, settings, clock } = files;
  const { own } = warehouse;
  if ((await readUnreferencedObjects(own)).length === 0) return 0;
  const storeAt = createOwnedStoreOpener(files);
  const lease = await acquireLease(warehouse, FILES_LEASE, clock);
  try {
    const byStore = Map.groupBy(await readUnreferencedObjects(own), ({ store }) => store);
    for (const address of storesOf(settings)) {
      const hashes = (byStore.get(address.name) ?? []).map(({ sha256 }) => sha256);
      if (hashes.length === 0) continue;
      const store = await storeAt(address);
      for (const sha256 of hashes) await store.remove(sha256);
      // After the removal: an interrupted erasure finds the rest again.
      await warehouse.apply(forgetObjects(own, address.name, hashes), lease.proof());
    }
    return (await readUnreferencedObjects(own)).length;
  } finally {
    await lease.release();
  }
}
