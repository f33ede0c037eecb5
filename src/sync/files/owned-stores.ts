import { randomUUID } from 'node:crypto';
import type { FilesSettings } from '../../config/file-stores.ts';
import type { StoreAddress } from '../../config/profile/file-fields.ts';
import { type FileSelection, type Reference, referencesAfter } from '../../database/state/file-contents.ts';
import type { Warehouse } from '../../database/warehouse.ts';
import type { Clock } from '../../model/clock.ts';
import { ConfigError, SyncError } from '../../model/errors.ts';
import type { ObjectStore, StoredObject } from '../../object-store/object-store.ts';

/** A source's files, for what looks after them without asking the service. */
export interface KeptFiles {
  warehouse: Warehouse;
  settings: FilesSettings;
  /** Throws `ConfigError` if it cannot be used, or is not there. */
  storeAt: (address: StoreAddress) => Promise<ObjectStore>;
  clock: Clock;
  signal: AbortSignal;
}

/**
 * Opens stores to write to them or remove from them: a store without an owner is marked as that of this database if
 * `isMarked`. Throws `ConfigError` (`file_store_taken`) for the store of another database, whose files are unknown here.
 */
export function ownedStores(
  { warehouse, storeAt }: { warehouse: Warehouse; storeAt: KeptFiles['storeAt'] },
  isMarked = true,
): KeptFiles['storeAt'] {
  const proved = new Set<ObjectStore>();
  return async (address) => {
    const store = await storeAt(address);
    if (proved.has(store)) return store;
    const owner = await fileOwner(warehouse);
    // One without room is marked once there is some.
    let isFull = false;
    if (isMarked) {
      await store.claim(owner).catch((error: unknown) => {
        if (!(error instanceof SyncError) || error.code !== 'file_store_full') throw error;
        isFull = true;
      });
    }
    const found = await store.owner();
    if (found !== null && found !== owner) {
      const message = `${store.shown} belongs to another copy, whose files would be removed as unknown`;
      const hint =
        'give each copy a store of its own in files.store; if that other copy is gone for good, remove .owner from the store, and this one takes it over';
      throw new ConfigError('file_store_taken', message, { hint });
    }
    if (!isFull) proved.add(store);
    return store;
  };
}

/** The name by which this database, and whatever it is moved to, marks the stores that are its own; made with its first use. */
async function fileOwner(warehouse: Warehouse): Promise<string> {
  const { own } = warehouse;
  const found = own.selectFrom('_sync_file_owner').select('owner');
  const known = await found.executeTakeFirst();
  if (known !== undefined) return known.owner;
  const made = own.insertInto('_sync_file_owner').values({ id: 1, owner: randomUUID() });
  await warehouse.apply([made.onConflict((conflict) => conflict.doNothing()).compile()]);
  return (await found.executeTakeFirstOrThrow()).owner;
}

const PER_STEP = 500;

/** A content that is in a store, that files name, or both. */
export interface Compared {
  sha256: string;
  object: StoredObject | null;
  reference: Reference | null;
}

/** Walks a store and the files that name its contents side by side: both tell them in the order of their hashes. */
export async function* compareStore(
  { own }: Warehouse,
  store: ObjectStore,
  looked: Omit<FileSelection, 'store'>,
): AsyncGenerator<Compared> {
  const references = allReferences(own, { ...looked, store: store.name });
  const objects = store.list()[Symbol.asyncIterator]();
  let [reference, object] = [await next(references), await next(objects)];
  try {
    while (reference !== null || object !== null) {
      const sha256 = least(reference?.sha256, object?.sha256);
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

function least(a: string | undefined, b: string | undefined): string {
  if (a === undefined || b === undefined) return a ?? b ?? '';
  return a < b ? a : b;
}

async function* allReferences(own: Warehouse['own'], looked: FileSelection): AsyncGenerator<Reference> {
  for (let after = ''; ;) {
    const references = await referencesAfter(own, looked, after, PER_STEP);
    yield* references;
    const last = references.at(-1);
    if (last === undefined || references.length < PER_STEP) return;
    after = last.sha256;
  }
}
