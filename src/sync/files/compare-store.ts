import type { ObjectStore, StoredObject } from '../../object-store/object-store.ts';
import { referencesAfter, type Looked, type Reference } from '../../database/state/file-contents.ts';
import type { Warehouse } from '../../database/warehouse.ts';

const PER_STEP = 500;

/** A content that stands in a store, that files name, or both. */
export interface Compared {
  sha256: string;
  object: StoredObject | null;
  reference: Reference | null;
}

/** Walks a store and the files that name its contents side by side: both tell them in the order of their hashes. */
export async function* compareStore(
  { own }: Pick<Warehouse, 'own'>,
  store: ObjectStore,
  looked: Omit<Looked, 'store'>,
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

async function* allReferences(own: Warehouse['own'], looked: Looked): AsyncGenerator<Reference> {
  for (let after = ''; ;) {
    const references = await referencesAfter(own, looked, after, PER_STEP);
    yield* references;
    const last = references.at(-1);
    if (last === undefined || references.length < PER_STEP) return;
    after = last.sha256;
  }
}
