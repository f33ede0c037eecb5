// Compares the object stores with the rows that name their objects, by size and hash.
import { createHash } from 'node:crypto';
import { pMapIterable } from 'p-map';
import { storesOf } from '../../config/file-stores.ts';
import {
  type ContentUse,
  filesWithContent,
  knownContents,
  knownStores,
  markObjectsIntact,
  type Reference,
  referencesAfter,
  refetchContents,
} from '../../database/state/file-contents.ts';
import { FILES_LEASE } from '../../database/state/files.ts';
import { acquireLease, type Lease } from '../../database/state/leases.ts';
import { errorCode, SyncError } from '../../model/errors.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { storeError } from '../../object-store/file-system.ts';
import type { ObjectStore } from '../../object-store/object-store.ts';
import { type ComparedContent, compareStore, ownedStores, type SourceFiles } from './owned-stores.ts';

/** What may be wrong with a content that files name. Stable: scripts may match on them. */
export const FILE_FAULTS = {
  missing: 'not in its store',
  size: 'of another size than it was stored with',
  content: 'not what its hash says',
  store: 'in a store that the settings no longer name',
} as const;

export type FileFault = keyof typeof FILE_FAULTS;

export interface FaultyFile {
  kind: FileFault;
  store: string;
  /** Null for all of a store. */
  sha256: string | null;
  /** Files that show it, or did; the first ones. */
  files: readonly ContentUse[];
}

/** What a verification of files has found; sizes in bytes. */
export interface FilesVerified {
  verdict: 'equal' | 'differs';
  /** Distinct contents, and the files that name them. */
  objects: number;
  files: number;
  bytes: number;
  faults: { count: number; by_kind: Partial<Record<FileFault, number>>; first: FaultyFile[] };
  /** In the stores, and named by no file. */
  orphans: { objects: number; bytes: number };
  /** Files that are fetched again, and contents that no file shows any more; null without `--repair`. */
  repaired: { again: number; left: number } | null;
}

const MAX_LISTED_FAULTS = 50;
const MAX_LISTED_FILES = 3;
const MAX_PARALLEL_READS = 8;
const CONTENTS_PER_COMMIT = 500;

interface FilesVerification extends SourceFiles {
  /** Null unless the next run is to fetch again what is wrong. */
  lease: Lease | null;
  /** Epoch milliseconds. */
  began: number;
  found: FilesVerified;
  repaired: { again: number; left: number };
}

/**
 * Compares the stores with what files name: that each content exists, with its size and its hash. Writes only when each
 * was last found intact; with `isRepaired` it takes the lease of the files, and has the next run fetch again what is
 * wrong. Throws `lease_held` then, and what a store throws that cannot be read at all.
 */
export async function verifyFiles(kept: SourceFiles, isRepaired: boolean): Promise<FilesVerified> {
  const { warehouse, clock, settings } = kept;
  const lease = isRepaired ? await acquireLease(warehouse, FILES_LEASE, clock) : null;
  try {
    const repaired = { again: 0, left: 0 };
    const found: FilesVerified = {
      verdict: 'equal',
      objects: 0,
      files: 0,
      bytes: 0,
      faults: { count: 0, by_kind: {}, first: [] },
      orphans: { objects: 0, bytes: 0 },
      repaired: isRepaired ? repaired : null,
    };
    const verification = { ...kept, lease, began: clock.now(), found, repaired };
    const stores = storesOf(settings);
    // A store that is only read may belong to another database.
    const storeAt = isRepaired ? ownedStores(kept) : kept.storeAt;
    for (const address of stores) await verifyStore(verification, await storeAt(address));
    for (const store of await knownStores(warehouse.own)) {
      if (!stores.some(({ name }) => name === store)) await addUnknownStore(verification, store);
    }
    return found;
  } finally {
    await lease?.release();
  }
}

async function verifyStore(verification: FilesVerification, store: ObjectStore): Promise<void> {
  const { warehouse, signal, clock, began, found } = verification;
  let intact: string[] = [];
  const save = async (): Promise<void> => {
    const statements = markObjectsIntact(warehouse.own, store.name, intact, timestampText(clock.now()));
    if (statements.length > 0) await warehouse.apply(statements);
    intact = [];
  };
  const judged = pMapIterable(
    compareStore(warehouse, store),
    async (one) => ({ ...one, fault: await findFault(verification, store, one) }),
    { concurrency: MAX_PARALLEL_READS },
  );
  for await (const { fault, sha256, reference, object } of judged) {
    signal.throwIfAborted();
    if (reference !== null) {
      found.objects += 1;
      found.files += reference.files;
      found.bytes += reference.bytes;
      if (fault === null) intact.push(sha256);
      else await addFault(verification, fault, store, reference);
    } else if (object !== null && object.storedAt < began) {
      // An object that was stored meanwhile may not have been named yet when the files were read.
      found.orphans.objects += 1;
      found.orphans.bytes += object.bytes;
    }
    if (intact.length >= CONTENTS_PER_COMMIT) await save();
  }
  await save();
}

/** Reports the contents of a store that the settings no longer name. */
async function addUnknownStore({ warehouse, repaired, found }: FilesVerification, store: string): Promise<void> {
  const [first] = await referencesAfter(warehouse.own, store, '', 1);
  if (first === undefined) return;
  const files = await filesWithContent(warehouse.own, store, first.sha256, 1);
  countFault(found, { kind: 'store', store, sha256: null, files });
  repaired.left += 1;
}

async function addFault(
  { warehouse, clock, lease, found, repaired }: FilesVerification,
  kind: FileFault,
  store: ObjectStore,
  { sha256, shown }: Reference,
): Promise<void> {
  const isListed = found.faults.first.length < MAX_LISTED_FAULTS;
  const files = isListed ? await filesWithContent(warehouse.own, store.name, sha256, MAX_LISTED_FILES) : [];
  countFault(found, { kind, store: store.name, sha256, files });
  if (lease === null) return;
  if (shown === 0) {
    repaired.left += 1;
    return;
  }
  // A damaged object must not be taken for the content when it is fetched again.
  if (kind !== 'missing') await store.remove(sha256);
  const now = timestampText(clock.now());
  await warehouse.apply(refetchContents(warehouse.own, store.name, [sha256], now), lease.proof());
  repaired.again += shown;
}

function countFault(found: FilesVerified, fault: FaultyFile): void {
  const { faults } = found;
  found.verdict = 'differs';
  faults.count += 1;
  faults.by_kind[fault.kind] = (faults.by_kind[fault.kind] ?? 0) + 1;
  if (faults.first.length < MAX_LISTED_FAULTS) faults.first.push(fault);
}

/** Returns what is wrong with one content; null if nothing is, or if no file names it. */
async function findFault(
  { warehouse, signal }: FilesVerification,
  store: ObjectStore,
  { sha256, object, reference }: ComparedContent,
): Promise<FileFault | null> {
  if (reference === null) return null;
  signal.throwIfAborted();
  // It may have been stored or pruned since the comparison.
  const stored = object ?? (await store.head(sha256));
  if (stored === null) {
    const named = await knownContents(warehouse.own, '_sync_files', store.name, [sha256]);
    return named.size > 0 ? 'missing' : null;
  }
  if (stored.bytes !== reference.bytes) return 'size';
  const hash = createHash('sha256');
  try {
    for await (const chunk of await store.read(sha256)) hash.update(chunk);
  } catch (error) {
    if (error instanceof SyncError && error.code === 'file_missing') return 'missing';
    // A part of the disk that cannot be read.
    if (errorCode(error) === 'EIO') return 'content';
    throw storeError(store.shown, error);
  }
  return hash.digest('hex') === sha256 ? null : 'content';
}
