// Opens object stores only for the database that owns them. Two copies with one bucket would each remove the files of the
// other as unknown, so a store is marked with its owner. Also finds the objects of a store that no file has.
import { randomUUID } from 'node:crypto';
import type { FilesSettings, StoreAddress } from '../../config/profile/file-fields.ts';
import { findKnownHashes } from '../../database/state/file-contents.ts';
import type { Warehouse } from '../../database/warehouse.ts';
import type { Clock } from '../../model/clock.ts';
import { ConfigError, SyncError } from '../../model/errors.ts';
import type { ObjectStore, StoredObject } from '../../object-store/object-store.ts';

/** What commands need that work on the stored files of a source without a request to the service. */
export interface SourceFiles {
  warehouse: Warehouse;
  settings: FilesSettings;
  /** Throws `ConfigError` if it cannot be used, or does not exist. */
  storeAt: (address: StoreAddress) => Promise<ObjectStore>;
  clock: Clock;
  signal: AbortSignal;
}

/**
 * Returns a function that opens a store to write to it or remove from it. A store without an owner is marked as that of this
 * database. Throws `ConfigError` (`file_store_taken`) for the store of another database.
 */
export function createOwnedStoreOpener(files: Pick<SourceFiles, 'warehouse' | 'storeAt'>): SourceFiles['storeAt'] {
  const { warehouse, storeAt } = files;
  const verified = new Set<ObjectStore>();
  return async (address) => {
    const store = await storeAt(address);
    if (verified.has(store)) return store;
    const owner = await readOwner(warehouse);
    await store.setOwner(owner).catch((error: unknown) => {
      // If the store is full, it is marked when it is next opened.
      if (!(error instanceof SyncError) || error.code !== 'file_store_full') throw error;
    });
    const marked = await store.owner();
    if (marked !== null && marked !== owner) {
      const message = `${store.shown} belongs to another copy, whose files would be removed as unknown`;
      const hint =
        'give each copy a store of its own in files.store; if that other copy is gone for good, remove .owner from the store, and this one takes it over';
      throw new ConfigError('file_store_taken', message, { hint });
    }
    if (marked !== null) verified.add(store);
    return store;
  };
}

/** Reads the name by which this database, and every copy of it, marks its stores; creates it with its first use. */
async function readOwner(warehouse: Warehouse): Promise<string> {
  const { own } = warehouse;
  const found = own.selectFrom('_sync_file_owner').select('owner');
  const known = await found.executeTakeFirst();
  if (known !== undefined) return known.owner;
  const made = own.insertInto('_sync_file_owner').values({ id: 1, owner: randomUUID() });
  await warehouse.apply([made.onConflict((conflict) => conflict.doNothing()).compile()]);
  return (await found.executeTakeFirstOrThrow()).owner;
}

const OBJECTS_PER_BATCH = 200;

/** Lists the objects of a store that no file has or had, in batches. */
export async function* findUnreferenced({ own }: Warehouse, store: ObjectStore): AsyncGenerator<StoredObject[]> {
  const withoutFile = async (objects: readonly StoredObject[]): Promise<StoredObject[]> => {
    const hashes = objects.map(({ sha256 }) => sha256);
    const named = await findKnownHashes(own, '_sync_files', store.name, hashes);
    return objects.filter(({ sha256 }) => !named.has(sha256));
  };
  let batch: StoredObject[] = [];
  for await (const object of store.list()) {
    batch.push(object);
    if (batch.length < OBJECTS_PER_BATCH) continue;
    yield await withoutFile(batch);
    batch = [];
  }
  yield await withoutFile(batch);
}
