import { createHash } from 'node:crypto';
import { pMapIterable } from 'p-map';
import { timestampText } from '../../model/timestamp-text.ts';
import { SyncError } from '../../model/errors.ts';
import { codeOf, storeFault } from '../../object-store/file-system.ts';
import type { ObjectStore } from '../../object-store/object-store.ts';
import { storesOf } from '../../config/file-stores.ts';
import {
  filesShowing,
  foundObjects,
  knownStores,
  referencesAfter,
  contentsAmong,
  refetchContents,
  type Reference,
  type Showing,
} from '../../database/state/file-contents.ts';
import { FILES_LEASE } from '../../database/state/files.ts';
import { acquireLease, type Lease } from '../../database/state/leases.ts';
import { compareStore, type Compared } from './compare-store.ts';
import { ownedStores, type KeptFiles } from './owned-stores.ts';

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
  files: readonly Showing[];
}

/** What a verification of files has found; sizes in bytes. */
export interface FilesVerified {
  mode: 'whole' | 'quick';
  verdict: 'equal' | 'differs';
  /** Distinct contents, and the files that name them. */
  objects: number;
  files: number;
  bytes: number;
  faults: { count: number; by_kind: Partial<Record<FileFault, number>>; first: FaultyFile[] };
  /** In the stores, and named by no file. */
  orphans: { objects: number; bytes: number };
  /** Null where nothing was to be repaired: files that are fetched again, and contents that nothing shows any more. */
  repaired: { again: number; left: number } | null;
}

export interface VerifyFilesRequest {
  /** Null for all, which finds orphans too. */
  resources: readonly string[] | null;
  /** Only that each is there, and its size. */
  isQuick: boolean;
  /** Has what is wrong fetched again by the next run. */
  isRepaired: boolean;
}

const MOST_NAMED = 50;
const FILES_NAMED = 3;
const AT_ONCE = 8;
const PER_COMMIT = 500;

interface Verification extends KeptFiles, VerifyFilesRequest {
  /** Null where nothing is to be repaired. */
  lease: Lease | null;
  /** Epoch milliseconds. */
  began: number;
  found: FilesVerified;
  repaired: { again: number; left: number };
}

/**
 * Compares the stores with what files name: that each content is there, of its size, and what its hash says. Writes only
 * when each was last found whole; with `isRepaired` it takes the lease of the files. Throws `lease_held` then, and
 * what a store throws that cannot be read at all.
 */
export async function verifyFiles(kept: KeptFiles, request: VerifyFilesRequest): Promise<FilesVerified> {
  const { isRepaired, isQuick } = request;
  const lease = isRepaired ? await acquireLease(kept.warehouse, FILES_LEASE, kept.clock) : null;
  try {
    const repaired = { again: 0, left: 0 };
    const found: FilesVerified = {
      mode: isQuick ? 'quick' : 'whole',
      verdict: 'equal',
      objects: 0,
      files: 0,
      bytes: 0,
      faults: { count: 0, by_kind: {}, first: [] },
      orphans: { objects: 0, bytes: 0 },
      repaired: isRepaired ? repaired : null,
    };
    const verification = { ...kept, ...request, lease, began: kept.clock.now(), found, repaired };
    const stores = storesOf(kept.settings);
    // What is only read may be anybody's.
    const storeAt = isRepaired ? ownedStores(kept) : kept.storeAt;
    for (const address of stores) await verifyStore(verification, await storeAt(address));
    await addLost(
      verification,
      stores.map(({ name }) => name),
    );
    return found;
  } finally {
    await lease?.release();
  }
}

async function verifyStore(verification: Verification, store: ObjectStore): Promise<void> {
  const { warehouse, signal, resources, isQuick } = verification;
  let whole: string[] = [];
  const judged = pMapIterable(
    compareStore(warehouse, store, { resources }),
    async (one) => ({ ...one, fault: await faultOf(verification, store, one, isQuick) }),
    { concurrency: AT_ONCE },
  );
  for await (const { fault, ...one } of judged) {
    signal.throwIfAborted();
    count(verification, one);
    if (fault !== null && one.reference !== null) await addFault(verification, fault, store, one.reference);
    else if (one.reference !== null) whole.push(one.sha256);
    if (whole.length < PER_COMMIT) continue;
    await remember(verification, store, whole);
    whole = [];
  }
  await remember(verification, store, whole);
}

function count({ found, resources, began }: Verification, { reference, object }: Compared): void {
  if (reference !== null) {
    found.objects += 1;
    found.files += reference.files;
    found.bytes += reference.bytes;
    // What came meanwhile may not have been named yet when the files were read.
  } else if (object !== null && resources === null && object.storedAt < began) {
    found.orphans.objects += 1;
    found.orphans.bytes += object.bytes;
  }
}

/** Contents of stores that cannot be looked at, because nobody says any more where they are. */
async function addLost(verification: Verification, known: readonly string[]): Promise<void> {
  const { warehouse, resources, repaired } = verification;
  for (const store of await knownStores(warehouse.own)) {
    if (known.includes(store)) continue;
    const [first] = await referencesAfter(warehouse.own, { store, resources }, '', 1);
    if (first === undefined) continue;
    add(verification, {
      kind: 'store',
      store,
      sha256: null,
      files: await filesShowing(warehouse.own, store, first.sha256, 1),
    });
    repaired.left += 1;
  }
}

async function addFault(
  verification: Verification,
  kind: FileFault,
  store: ObjectStore,
  { sha256, shown }: Reference,
): Promise<void> {
  const { warehouse, clock, lease, found, repaired } = verification;
  const isNamed = found.faults.first.length < MOST_NAMED;
  const files = isNamed ? await filesShowing(warehouse.own, store.name, sha256, FILES_NAMED) : [];
  add(verification, { kind, store: store.name, sha256, files });
  if (lease === null) return;
  if (shown === 0) {
    repaired.left += 1;
    return;
  }
  // What is not what it says must not be taken for it when it comes again.
  if (kind !== 'missing') await store.setAside(sha256);
  const now = timestampText(clock.now());
  await warehouse.apply(refetchContents(warehouse.own, store.name, [sha256], now), lease.proof());
  repaired.again += shown;
}

function add({ found }: Verification, fault: FaultyFile): void {
  const { faults } = found;
  found.verdict = 'differs';
  faults.count += 1;
  faults.by_kind[fault.kind] = (faults.by_kind[fault.kind] ?? 0) + 1;
  if (faults.first.length < MOST_NAMED) faults.first.push(fault);
}

async function remember(
  { warehouse, clock, isQuick }: Verification,
  { name }: ObjectStore,
  whole: readonly string[],
): Promise<void> {
  if (whole.length === 0) return;
  await warehouse.apply(foundObjects(warehouse.own, name, whole, isQuick ? null : timestampText(clock.now())));
}

/** What is wrong with one content; null if nothing is, or if no file names it. */
async function faultOf(
  { warehouse, signal }: KeptFiles,
  store: ObjectStore,
  { sha256, object, reference }: Compared,
  isQuick: boolean,
): Promise<FileFault | null> {
  if (reference === null) return null;
  signal.throwIfAborted();
  // It may have come, or may have been pruned, since it was looked for.
  const there = object ?? (await store.head(sha256));
  if (there === null)
    return (await contentsAmong(warehouse.own, '_sync_files', store.name, [sha256])).size > 0 ? 'missing' : null;
  if (there.bytes !== reference.bytes) return 'size';
  return isQuick ? null : contentFault(store, sha256);
}

/** Reads an object to its end. */
async function contentFault(store: ObjectStore, sha256: string): Promise<FileFault | null> {
  const hash = createHash('sha256');
  try {
    for await (const chunk of await store.read(sha256)) hash.update(chunk);
  } catch (error) {
    if (error instanceof SyncError && error.code === 'file_missing') return 'missing';
    // A place of the disk that cannot be read.
    if (codeOf(error) === 'EIO') return 'content';
    throw storeFault(store.shown, error);
  }
  return hash.digest('hex') === sha256 ? null : 'content';
}
