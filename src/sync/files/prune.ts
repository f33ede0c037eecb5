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

/** What a pruning has removed, or would remove, and what it keeps and why; sizes in bytes. */
export interface FilesPruned {
  /** Earlier contents of files that are no longer remembered. */
  rows: number;
  /** Contents that nothing names. */
  objects: number;
  bytes: number;
  /** Unfinished downloads and uploads; null for a dry run, which does not look at them. */
  unfinished: number | null;
  kept: {
    /** Contents that files show, or showed. */
    named: { objects: number; bytes: number };
    /** Earlier contents that stay for ever, because their resource has `history: all`. */
    history: number;
    /** That ended less than `grace` ago. */
    recent_rows: number;
    /** That no file names, of which nothing is remembered, and that came less than `grace` ago. */
    recent_objects: { objects: number; bytes: number };
    /** Earlier contents of resources that the profile does not have. */
    unknown_rows: number;
    /** Stores that the settings no longer name: nothing is looked for there. */
    stores: readonly string[];
  };
}

export interface PruneRequest extends KeptFiles {
  profile: Profile;
  /** Only says what it would do. */
  isDry: boolean;
}

const PER_COMMIT = 200;

interface Pruning extends PruneRequest {
  /** Null for a dry run. */
  lease: Lease | null;
  /** Earlier contents that go: those of these resources that ended before `before`. */
  leaving: { resources: readonly string[]; before: TimestampText };
  /** Epoch milliseconds. */
  before: number;
  pruned: FilesPruned;
}

/**
 * Removes what no version of a record refers to: earlier contents that ended longer than `grace` ago, unless their
 * resource keeps its history, and contents that no file names. Throws `lease_held` while files are being fetched, and
 * what a store throws that cannot be used.
 */
export async function pruneFiles(request: PruneRequest): Promise<FilesPruned> {
  const { settings, clock, warehouse, isDry } = request;
  const lease = isDry ? null : await acquireLease(warehouse, FILES_LEASE, clock);
  try {
    const before = clock.now() - settings.grace;
    const storeAt = ownedStores(request, !isDry);
    const stores = await Promise.all(storesOf(settings).map(storeAt));
    const leaving = { resources: await withoutHistory(request), before: timestampText(before) };
    const pruning = { ...request, lease, leaving, before, pruned: nothing(isDry) };
    await pruneRows(pruning);
    for (const store of stores) await pruneStore(pruning, store);
    const known = new Set(stores.map(({ name }) => name));
    pruning.pruned.kept.stores = (await knownStores(warehouse.own)).filter((store) => !known.has(store));
    return pruning.pruned;
  } finally {
    await lease?.release();
  }
}

const NONE = { objects: 0, bytes: 0 } as const;

function nothing(isDry: boolean): FilesPruned {
  const named = { ...NONE };
  const kept = { named, history: 0, recent_rows: 0, recent_objects: { ...NONE }, unknown_rows: 0, stores: [] };
  return { rows: 0, ...NONE, unfinished: isDry ? null : 0, kept };
}

/** Resources with files whose earlier contents are not kept for ever. */
async function withoutHistory({ warehouse, profile }: PruneRequest): Promise<string[]> {
  const resources = await resourcesWithFiles(warehouse.own);
  return resources.filter((resource) => !['all', undefined].includes(profile.resources[resource]?.history));
}

async function pruneRows({ warehouse, profile, lease, leaving, pruned }: Pruning): Promise<void> {
  const { own } = warehouse;
  for (const resource of await resourcesWithFiles(own)) {
    const { all, old } = await countEarlier(own, resource, leaving.before);
    if (leaving.resources.includes(resource)) {
      pruned.rows += old;
      pruned.kept.recent_rows += all - old;
      if (lease !== null && old > 0) {
        await warehouse.apply([deleteEarlier(own, resource, leaving.before)], lease.proof());
      }
    } else if (profile.resources[resource] === undefined) pruned.kept.unknown_rows += all;
    else pruned.kept.history += all;
  }
}

async function pruneStore(pruning: Pruning, store: ObjectStore): Promise<void> {
  const { warehouse, settings, leaving, lease, pruned, signal } = pruning;
  let unnamed: StoredObject[] = [];
  for await (const { reference, object } of compareStore(warehouse, store, { resources: null, leaving })) {
    signal.throwIfAborted();
    if (reference !== null) add(pruned.kept.named, reference.bytes);
    else if (object !== null) unnamed.push(object);
    if (unnamed.length < PER_COMMIT) continue;
    await pruneObjects(pruning, store, unnamed);
    unnamed = [];
  }
  await pruneObjects(pruning, store, unnamed);
  if (lease === null) return;
  await warehouse.apply(forgetUnnamed(warehouse.own, store.name, leaving.before), lease.proof());
  pruned.unfinished = (pruned.unfinished ?? 0) + (await store.sweepUnfinished(settings.grace));
}

/**
 * Of contents that nothing names, those that are remembered were named once: they are removed at once, forgotten ones included.
 * Others may be newer than the warehouse, if that was restored from a backup.
 */
async function pruneObjects(
  { warehouse, lease, before, pruned }: Pruning,
  store: ObjectStore,
  unnamed: readonly StoredObject[],
): Promise<void> {
  const { own } = warehouse;
  const hashes = unnamed.map(({ sha256 }) => sha256);
  const remembered = await contentsAmong(own, '_sync_file_objects', store.name, hashes);
  // Asked once more of each: a listing that is not in order must cost nothing but time.
  const named = lease === null ? new Set<string>() : await contentsAmong(own, '_sync_files', store.name, hashes);
  const leaving = unnamed.filter(
    ({ sha256, storedAt }) => !named.has(sha256) && (remembered.has(sha256) || storedAt < before),
  );
  const goes = new Set(leaving.map(({ sha256 }) => sha256));
  for (const { bytes, sha256 } of unnamed) {
    const kept = named.has(sha256) ? pruned.kept.named : pruned.kept.recent_objects;
    add(goes.has(sha256) ? pruned : kept, bytes);
  }
  if (lease === null || leaving.length === 0) return;
  // It checks the lease just before they are removed, so that no other process can name them meanwhile.
  await warehouse.apply(forgetObjects(own, store.name, [...goes]), lease.proof());
  for (const { sha256 } of leaving) await store.remove(sha256);
}

function add(sum: { objects: number; bytes: number }, bytes: number): void {
  sum.objects += 1;
  sum.bytes += bytes;
}

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
