// Opens object stores that belong to this database, and compares a store with the rows that name its objects.
import { randomUUID } from 'node:crypto';
import type { FilesSettings } from '../../config/file-stores.ts';
import type { StoreAddress } from '../../config/profile/file-fields.ts';
import { type Reference, referencesAfter } from '../../database/state/file-contents.ts';
import type { Warehouse } from '../../database/warehouse.ts';
import type { Clock } from '../../model/clock.ts';
import { ConfigError, SyncError } from '../../model/errors.ts';
import type { ObjectStore, StoredObject } from '../../object-store/object-store.ts';

/** The stored files of a source, for commands that send the service no request. */
export interface SourceFiles {
  warehouse: Warehouse;
  settings: FilesSettings;
  /** Throws `ConfigError` if it cannot be used, or does not exist. */
  storeAt: (address: StoreAddress) => Promise<ObjectStore>;
  clock: Clock;
  signal: AbortSignal;
}

/**
 * Opens stores to write to them or remove from them, and marks a store without an owner as that of this database. Throws
 * `ConfigError` (`file_store_taken`) for the store of another database, whose files are unknown here.
 */
export function ownedStores({
  warehouse,
  storeAt,
}: {
  warehouse: Warehouse;
  storeAt: SourceFiles['storeAt'];
}): SourceFiles['storeAt'] {
  const verified = new Set<ObjectStore>();
  return async (address) => {
    const store = await storeAt(address);
    if (verified.has(store)) return store;
    const owner = await readOwner(warehouse);
    await store.setOwner(owner).catch((error: unknown) => {
      // Without room it is marked another time.
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

/** The name by which this database, and every copy of it, marks its stores; created with its first use. */
async function readOwner(warehouse: Warehouse): Promise<string> {
  const { own } = warehouse;
  const found = own.selectFrom('_sync_file_owner').select('owner');
  const known = await found.executeTakeFirst();
  if (known !== undefined) return known.owner;
  const made = own.insertInto('_sync_file_owner').values({ id: 1, owner: randomUUID() });
  await warehouse.apply([made.onConflict((conflict) => conflict.doNothing()).compile()]);
  return (await found.executeTakeFirstOrThrow()).owner;
}

const REFERENCES_PER_STEP = 500;

/** A content that is in a store, that files name, or both. */
export interface ComparedContent {
  sha256: string;
  object: StoredObject | null;
  reference: Reference | null;
}

/** Merges the objects of a store with the files that name them: both are listed in the order of their hashes. */
export async function* compareStore({ own }: Warehouse, store: ObjectStore): AsyncGenerator<ComparedContent> {
  const references = allReferences(own, store.name);
  const objects = store.list()[Symbol.asyncIterator]();
  let [reference, object] = [await next(references), await next(objects)];
  try {
    while (reference !== null || object !== null) {
      const [sha256 = ''] = [reference, object].flatMap((each) => each?.sha256 ?? []).toSorted();
      const isNamed = reference?.sha256 === sha256;
      const isThere = object?.sha256 === sha256;
      yield { sha256, reference: isNamed ? reference : null, object: isThere ? object : null };
      if (isNamed) reference = await next(references);
      if (isThere) object = await next(objects);
    }
  } finally {
    await objects.return?.();
  }
}

async function next<T>(all: AsyncIterator<T>): Promise<T | null> {
  const { done, value } = await all.next();
  return done === true ? null : value;
}

async function* allReferences(own: Warehouse['own'], store: string): AsyncGenerator<Reference> {
  for (let after: string | null = ''; after !== null;) {
    const references: Reference[] = await referencesAfter(own, store, after, REFERENCES_PER_STEP);
    yield* references;
    after = references.at(-1)?.sha256 ?? null;
  }
}
