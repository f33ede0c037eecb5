// `files verify`: reads every object of the stores, and compares its size and hash with the rows of files that name it. A disk
// may have lost or damaged an object; with `--repair`, the next run fetches it again.
import { createHash } from 'node:crypto';
import { pMapIterable } from 'p-map';
import { storesOf } from '../../config/profile/file-fields.ts';
import {
  type ContentUse,
  findKnownHashes,
  markObjectsIntact,
  readContentUses,
  readReferencedContents,
  readStoreNames,
  type ReferencedContent,
  refetchContents,
} from '../../database/state/file-contents.ts';
import { FILES_LEASE } from '../../database/state/files.ts';
import { acquireLease, type Lease } from '../../database/state/leases.ts';
import { errorCode, SyncError } from '../../model/errors.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { storeError } from '../../object-store/file-system.ts';
import type { ObjectStore } from '../../object-store/object-store.ts';
import { createOwnedStoreOpener, findUnreferenced, type SourceFiles } from './owned-stores.ts';

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
  /** Null for all contents of a store. */
  sha256: string | null;
  /** The first files that have or had this content. */
  files: readonly ContentUse[];
}

/** What a verification of files has found; sizes in bytes. */
export interface FilesVerified {
  verdict: 'equal' | 'differs';
  /** Distinct contents. */
  objects: number;
  /** Files that have or had one of them. */
  files: number;
  bytes: number;
  faults: { count: number; by_kind: Partial<Record<FileFault, number>>; first: FaultyFile[] };
  /** Objects in the stores that no file has or had. */
  orphans: { objects: number; bytes: number };
  /** Files that are fetched again, and faults that stay, because no current file has the content; null without `--repair`. */
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
  found: FilesVerified & { repaired: { again: number; left: number } };
}

/**
 * Verifies that each content that files name is in its store, with its size and its hash. Writes only when it last found a
 * content intact, unless `isRepaired`: then missing and damaged contents become due to be fetched again, under the lease of
 * the files. Throws `lease_held` if another process has that lease, and what a store throws that cannot be read at all.
 */
export async function verifyFiles(files: SourceFiles, isRepaired: boolean): Promise<FilesVerified> {
  const { warehouse, clock, settings } = files;
  const lease = isRepaired ? await acquireLease(warehouse, FILES_LEASE, clock) : null;
  try {
    const found: FilesVerification['found'] = {
      verdict: 'equal',
      objects: 0,
      files: 0,
      bytes: 0,
      faults: { count: 0, by_kind: {}, first: [] },
      orphans: { objects: 0, bytes: 0 },
      repaired: { again: 0, left: 0 },
    };
    const verification = { ...files, lease, began: clock.now(), found };
    const stores = storesOf(settings);
    // A store that is only read may belong to another database.
    const storeAt = isRepaired ? createOwnedStoreOpener(files) : files.storeAt;
    for (const address of stores) await verifyStore(verification, await storeAt(address));
    for (const store of await readStoreNames(warehouse.own)) {
      if (!stores.some(({ name }) => name === store)) await addUnknownStore(verification, store);
    }
    return isRepaired ? found : { ...found, repaired: null };
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
  const compared = pMapIterable(
    readReferences(warehouse.own, store.name),
    async (reference) => ({ reference, fault: await findFault(verification, store, reference) }),
    { concurrency: MAX_PARALLEL_READS },
  );
  for await (const { fault, reference } of compared) {
    signal.throwIfAborted();
    found.objects += 1;
    found.files += reference.files;
    found.bytes += reference.bytes;
    if (fault === null) intact.push(reference.sha256);
    else await addFault(verification, fault, store, reference);
    if (intact.length >= CONTENTS_PER_COMMIT) await save();
  }
  await save();
  for await (const unreferenced of findUnreferenced(warehouse, store)) {
    signal.throwIfAborted();
    // The row of an object that was stored meanwhile may not be written yet.
    const orphans = unreferenced.filter(({ storedAt }) => storedAt < began);
    found.orphans.objects += orphans.length;
    for (const { bytes } of orphans) found.orphans.bytes += bytes;
  }
}

async function* readReferences(own: SourceFiles['warehouse']['own'], store: string): AsyncGenerator<ReferencedContent> {
  for (let after: string | null = ''; after !== null;) {
    const references: ReferencedContent[] = await readReferencedContents(own, store, after, CONTENTS_PER_COMMIT);
    yield* references;
    after = references.at(-1)?.sha256 ?? null;
  }
}

/** Reports the contents of a store that the settings no longer name. */
async function addUnknownStore({ warehouse, found }: FilesVerification, store: string): Promise<void> {
  const [first] = await readReferencedContents(warehouse.own, store, '', 1);
  if (first === undefined) return;
  const files = await readContentUses(warehouse.own, store, first.sha256, 1);
  countFault(found, { kind: 'store', store, sha256: null, files });
  found.repaired.left += 1;
}

async function addFault(
  { warehouse, clock, lease, found }: FilesVerification,
  kind: FileFault,
  store: ObjectStore,
  { sha256, current: currentFiles }: ReferencedContent,
): Promise<void> {
  const isListed = found.faults.first.length < MAX_LISTED_FAULTS;
  const files = isListed ? await readContentUses(warehouse.own, store.name, sha256, MAX_LISTED_FILES) : [];
  countFault(found, { kind, store: store.name, sha256, files });
  if (lease === null) return;
  if (currentFiles === 0) {
    // No record has the content any more, so the service need not have it either.
    found.repaired.left += 1;
    return;
  }
  // A damaged object must not be taken for the content when it is fetched again.
  if (kind !== 'missing') await store.remove(sha256);
  const now = timestampText(clock.now());
  await warehouse.apply(refetchContents(warehouse.own, store.name, [sha256], now), lease.proof());
  found.repaired.again += currentFiles;
}

function countFault(found: FilesVerified, fault: FaultyFile): void {
  const { faults } = found;
  found.verdict = 'differs';
  faults.count += 1;
  faults.by_kind[fault.kind] = (faults.by_kind[fault.kind] ?? 0) + 1;
  if (faults.first.length < MAX_LISTED_FAULTS) faults.first.push(fault);
}

/** Returns what is wrong with one content; null if nothing is, or if no file has it any more. */
async function findFault(
  { warehouse, signal }: FilesVerification,
  store: ObjectStore,
  { sha256, bytes }: ReferencedContent,
): Promise<FileFault | null> {
  signal.throwIfAborted();
  const hash = createHash('sha256');
  let foundBytes = 0;
  try {
    const content: AsyncIterable<Buffer> = await store.read(sha256);
    for await (const chunk of content) {
      hash.update(chunk);
      foundBytes += chunk.length;
    }
  } catch (error) {
    if (error instanceof SyncError && error.code === 'file_missing') {
      // It may have been pruned since its row was read.
      const named = await findKnownHashes(warehouse.own, '_sync_files', store.name, [sha256]);
      return named.size > 0 ? 'missing' : null;
    }
    // The disk cannot read a part of the object.
    if (errorCode(error) === 'EIO') return 'content';
    throw storeError(store.shown, error);
  }
  if (foundBytes !== bytes) return 'size';
  return hash.digest('hex') === sha256 ? null : 'content';
}
