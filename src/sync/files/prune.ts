import { storesOf } from '../../config/file-stores.ts';
import type { Profile } from '../../config/profile/profile.ts';
import type { TimestampText } from '../../database/own-tables.ts';
import {
  contentsAmong,
  countEarlier,
  deleteEarlier,
  forgetObjects,
  forgetUnnamed,
  knownStores,
  unnamedObjects,
} from '../../database/state/file-contents.ts';
import { FILES_LEASE, resourcesWithFiles } from '../../database/state/files.ts';
import { acquireLease, type Lease } from '../../database/state/leases.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import type { ObjectStore, StoredObject } from '../../object-store/object-store.ts';
import { compareStore, type KeptFiles, ownedStores } from './owned-stores.ts';

/** What pruning has removed, or would remove; sizes in bytes. */
export interface FilesPruned {
  /** Rows of earlier contents. */
  rows: number;
  /** Contents that no row names. */
  objects: number;
  bytes: number;
  /** Unfinished downloads and uploads; null for a dry run, which does not count them. */
  unfinished: number | null;
  /** Stores that the settings no longer name: nothing is removed there. */
  unnamed_stores: readonly string[];
}

export interface PruneRequest extends KeptFiles {
  profile: Profile;
  /** True to only count what would be removed. */
  isDry: boolean;
}

const OBJECTS_PER_COMMIT = 200;

interface Pruning extends PruneRequest {
  /** Null for a dry run. */
  lease: Lease | null;
  /** Earlier contents to remove: those of these resources that ended before a time. */
  leaving: { resources: readonly string[]; before: TimestampText };
  pruned: FilesPruned;
}

/**
 * Removes earlier contents that ended longer than `grace` ago, unless their resource keeps its history, and objects that
 * no row names. Throws `lease_held` while files are being fetched, and what a store throws that cannot be used.
 */
export async function pruneFiles(request: PruneRequest): Promise<FilesPruned> {
  const { settings, clock, warehouse, profile, isDry } = request;
  const lease = isDry ? null : await acquireLease(warehouse, FILES_LEASE, clock);
  try {
    const storeAt = ownedStores(request, !isDry);
    const stores = await Promise.all(storesOf(settings).map(storeAt));
    const names = new Set(stores.map(({ name }) => name));
    const resources = (await resourcesWithFiles(warehouse.own)).filter((resource) => {
      const history = profile.resources[resource]?.history;
      return history !== undefined && history !== 'all';
    });
    const leaving = { resources, before: timestampText(clock.now() - settings.grace) };
    const unnamed_stores = (await knownStores(warehouse.own)).filter((store) => !names.has(store));
    const pruned = { rows: 0, objects: 0, bytes: 0, unfinished: isDry ? null : 0, unnamed_stores };
    const pruning = { ...request, lease, leaving, pruned };
    for (const resource of resources) await pruneRows(pruning, resource);
    for (const store of stores) await pruneStore(pruning, store);
    return pruned;
  } finally {
    await lease?.release();
  }
}

async function pruneRows({ warehouse, lease, leaving, pruned }: Pruning, resource: string): Promise<void> {
  const { own } = warehouse;
  const rows = await countEarlier(own, resource, leaving.before);
  pruned.rows += rows;
  if (lease !== null && rows > 0) await warehouse.apply([deleteEarlier(own, resource, leaving.before)], lease.proof());
}

async function pruneStore(pruning: Pruning, store: ObjectStore): Promise<void> {
  const { warehouse, settings, leaving, lease, pruned, signal } = pruning;
  let unnamed: StoredObject[] = [];
  for await (const { reference, object } of compareStore(warehouse, store, { resources: null, leaving })) {
    signal.throwIfAborted();
    if (reference === null && object !== null) unnamed.push(object);
    if (unnamed.length < OBJECTS_PER_COMMIT) continue;
    await pruneObjects(pruning, store, unnamed);
    unnamed = [];
  }
  await pruneObjects(pruning, store, unnamed);
  if (lease === null) return;
  await warehouse.apply(forgetUnnamed(warehouse.own, store.name, leaving.before), lease.proof());
  pruned.unfinished = (pruned.unfinished ?? 0) + (await store.sweepUnfinished(settings.grace));
}

/**
 * Removes objects that a row named once; the warehouse remembers those. Other objects stay for `grace`: they may be newer
 * than a warehouse that was restored from a backup.
 */
async function pruneObjects(
  { warehouse, settings, clock, lease, pruned }: Pruning,
  store: ObjectStore,
  unnamed: readonly StoredObject[],
): Promise<void> {
  const { own } = warehouse;
  const hashes = unnamed.map(({ sha256 }) => sha256);
  const remembered = await contentsAmong(own, '_sync_file_objects', store.name, hashes);
  // Read again, because a store may list its objects in another order than that of their hashes.
  const named = lease === null ? new Set<string>() : await contentsAmong(own, '_sync_files', store.name, hashes);
  const before = clock.now() - settings.grace;
  const leaving = unnamed.filter(
    ({ sha256, storedAt }) => !named.has(sha256) && (remembered.has(sha256) || storedAt < before),
  );
  pruned.objects += leaving.length;
  for (const { bytes } of leaving) pruned.bytes += bytes;
  if (lease === null || leaving.length === 0) return;
  // Checks the lease just before the removal, so that no other process can name them meanwhile.
  const removed = leaving.map(({ sha256 }) => sha256);
  await warehouse.apply(forgetObjects(own, store.name, removed), lease.proof());
  for (const sha256 of removed) await store.remove(sha256);
}

/**
 * Removes the contents that no row names any more, such as those of erased records, without waiting for `grace`. Returns
 * how many remain, in stores that the settings do not name. Throws `lease_held` while files are being fetched, and what
 * a store throws that cannot be used.
 */
export async function eraseUnnamed(files: Omit<KeptFiles, 'signal'>): Promise<number> {
  const { warehouse, settings, clock } = files;
  const { own } = warehouse;
  if ((await unnamedObjects(own)).length === 0) return 0;
  const storeAt = ownedStores(files);
  const lease = await acquireLease(warehouse, FILES_LEASE, clock);
  try {
    const unnamed = Map.groupBy(await unnamedObjects(own), ({ store }) => store);
    for (const address of storesOf(settings)) {
      const hashes = (unnamed.get(address.name) ?? []).map(({ sha256 }) => sha256);
      if (hashes.length === 0) continue;
      const store = await storeAt(address);
      for (const sha256 of hashes) await store.remove(sha256);
      // After the removal: an interrupted erasure finds the rest again.
      await warehouse.apply(forgetObjects(own, address.name, hashes), lease.proof());
    }
    return (await unnamedObjects(own)).length;
  } finally {
    await lease.release();
  }
}
