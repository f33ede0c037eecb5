import { createHash } from 'node:crypto';
import { pMapIterable } from 'p-map';
import { timestampText } from '../../model/timestamp-text.ts';
import { SyncError } from '../../model/errors.ts';
import { codeOf, storeFault } from '../../object-store/file-system.ts';
import type { ObjectStore } from '../../object-store/object-store.ts';
import { storesOf } from '../../settings/file-stores.ts';
import {
  filesShowing,
  foundObjects,
  knownStores,
  referencesAfter,
  contentsAmong,
  refetchContents,
  type Reference,
  type Showing,
} from '../../state/files/file-references.ts';
import { FILES_LEASE } from '../../state/files/record-files.ts';
import { acquireLease, type Lease } from '../../state/leases.ts';
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
  faults: { count: number; by_kind: Partial<Record<FileFault, number>>; first: readonly FaultyFile[] };
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

/**
 * Compares the stores with what files name: that each content is there, of its size, and what its hash says. Writes only
 * when each was last found whole; with `isRepaired` it takes the lease of the files. Throws `lease_held` then, and
 * what a store throws that cannot be read at all.
 */
export async function verifyFiles(kept: KeptFiles, request: VerifyFilesRequest): Promise<FilesVerified> {
  const lease = request.isRepaired ? await acquireLease(kept.warehouse, FILES_LEASE, kept.clock) : null;
  try {
    const verifying = new Verifying(kept, request, lease);
    const stores = storesOf(kept.settings);
    // What is only read may be anybody's.
    const storeAt = request.isRepaired ? ownedStores(kept) : kept.storeAt;
    for (const address of stores) await verifying.compare(await storeAt(address));
    await verifying.tellLost(stores.map(({ name }) => name));
    return verifying.result();
  } finally {
    await lease?.release();
  }
}

class Verifying {
  readonly #kept: KeptFiles;
  readonly #request: VerifyFilesRequest;
  readonly #lease: Lease | null;
  readonly #began: number;
  readonly #counts = { objects: 0, files: 0, bytes: 0 };
  readonly #orphans = { objects: 0, bytes: 0 };
  readonly #faults = new Map<FileFault, number>();
  readonly #first: FaultyFile[] = [];
  readonly #repaired = { again: 0, left: 0 };

  constructor(kept: KeptFiles, request: VerifyFilesRequest, lease: Lease | null) {
    [this.#kept, this.#request, this.#lease] = [kept, request, lease];
    this.#began = kept.clock.now();
  }

  async compare(store: ObjectStore): Promise<void> {
    const { warehouse, signal } = this.#kept;
    const { resources, isQuick } = this.#request;
    const compared = compareStore(warehouse, store, { resources });
    let found: string[] = [];
    const judged = pMapIterable(
      compared,
      async (one) => ({ ...one, fault: await faultOf(this.#kept, store, one, isQuick) }),
      { concurrency: AT_ONCE },
    );
    for await (const { fault, ...one } of judged) {
      signal.throwIfAborted();
      this.#count(one);
      if (fault !== null && one.reference !== null) await this.#tell(fault, store, one.reference);
      else if (one.reference !== null) found.push(one.sha256);
      if (found.length < PER_COMMIT) continue;
      await this.#remember(store, found);
      found = [];
    }
    await this.#remember(store, found);
  }

  /** Contents of stores that cannot be looked at, because nobody says any more where they are. */
  async tellLost(known: readonly string[]): Promise<void> {
    const { own } = this.#kept.warehouse;
    for (const store of await knownStores(own)) {
      if (known.includes(store)) continue;
      const [first] = await referencesAfter(own, { store, resources: this.#request.resources }, '', 1);
      if (first === undefined) continue;
      this.#add({ kind: 'store', store, sha256: null, files: await filesShowing(own, store, first.sha256, 1) });
      this.#repaired.left += 1;
    }
  }

  result(): FilesVerified {
    const count = [...this.#faults.values()].reduce((sum, each) => sum + each, 0);
    return {
      mode: this.#request.isQuick ? 'quick' : 'whole',
      verdict: count === 0 ? 'equal' : 'differs',
      ...this.#counts,
      faults: { count, by_kind: Object.fromEntries(this.#faults), first: this.#first },
      orphans: this.#orphans,
      repaired: this.#request.isRepaired ? this.#repaired : null,
    };
  }

  #count({ reference, object }: Compared): void {
    if (reference !== null) {
      this.#counts.objects += 1;
      this.#counts.files += reference.files;
      this.#counts.bytes += reference.bytes;
      // What came meanwhile may not have been named yet when the files were read.
    } else if (object !== null && this.#request.resources === null && object.storedAt < this.#began) {
      this.#orphans.objects += 1;
      this.#orphans.bytes += object.bytes;
    }
  }

  async #tell(kind: FileFault, store: ObjectStore, { sha256, shown }: Reference): Promise<void> {
    const { own } = this.#kept.warehouse;
    const isNamed = this.#first.length < MOST_NAMED;
    const files = isNamed ? await filesShowing(own, store.name, sha256, FILES_NAMED) : [];
    this.#add({ kind, store: store.name, sha256, files });
    if (this.#lease === null) return;
    if (shown === 0) {
      this.#repaired.left += 1;
      return;
    }
    // What is not what it says must not be taken for it when it comes again.
    if (kind !== 'missing') await store.setAside(sha256);
    const now = timestampText(this.#kept.clock.now());
    await this.#kept.warehouse.apply(refetchContents(own, store.name, [sha256], now), this.#lease.proof());
    this.#repaired.again += shown;
  }

  #add(fault: FaultyFile): void {
    this.#faults.set(fault.kind, (this.#faults.get(fault.kind) ?? 0) + 1);
    if (this.#first.length < MOST_NAMED) this.#first.push(fault);
  }

  async #remember({ name }: ObjectStore, found: readonly string[]): Promise<void> {
    if (found.length === 0) return;
    const { warehouse, clock } = this.#kept;
    const checked = this.#request.isQuick ? null : timestampText(clock.now());
    await warehouse.apply(foundObjects(warehouse.own, name, found, checked));
  }
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
