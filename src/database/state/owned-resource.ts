// The resources that this process owns, which means that it holds their lease and may write them.
//
// A scan, a re-fetch after a webhook, and an erasure may all want to write `content` at the same time. They share one lease,
// the facts about its tables, and a queue in which they write one after the other.
import type { CompiledQuery } from 'kysely';
import PQueue from 'p-queue';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import { type Acquired, SharedResources } from '../../model/shared-resources.ts';
import type { ResourceShape, SourcePath } from '../../model/table.ts';
import type { Years } from '../../model/timestamp-text.ts';
import type { ColumnType } from '../../model/vocabulary.ts';
import type { LeaseProof, Warehouse } from '../warehouse.ts';
import { readTables } from './catalog.ts';
import { type Forgotten, NO_PRIVACY_KEY, type PrivacyKey, readForgotten } from './forgotten.ts';
import { acquireLease, type Lease } from './leases.ts';
import { countOpenRejects } from './stored-rows.ts';

/** A managed view that keeps its narrower types, because an object of another program depends on the view. */
export interface HeldView {
  view: string;
  resource: string | null;
  /** The object that depends on it, such as `view bi.total (of bi)`. */
  by: string;
  /** Its query as it would be with the wider types. */
  query: string;
  columns: readonly HeldColumn[];
}

/** A column of such a view. For values that need the wider type it shows NULL, or a rounded value. */
interface HeldColumn {
  name: string;
  /** The type that the view shows. */
  type: ColumnType;
  /** The type that its values need. */
  needs: ColumnType;
}

/** A column of a table whose type cannot widen, because an external object depends on the column. */
export interface FixedColumn {
  path: SourcePath;
  type: ColumnType;
  /** The object that depends on it. */
  by: string;
}

/** The managed views of a source, which join the tables of several resources. They are refreshed one after the other. */
export interface SourceViews {
  /** Resolves once the last refresh is done. */
  refreshed: Promise<unknown>;
  /** The views as they were when a refresh had nothing to change; null if none was. */
  upToDate: UpToDateViews | null;
}

interface UpToDateViews {
  /** The profile, with all its resources, for which the views were planned. */
  whole: object;
  /** How often tables and views had changed by then (`readGrowths`). */
  growths: number;
  /** The names of all managed views. */
  names: readonly string[];
  heldViews: readonly HeldView[];
  /** Epoch milliseconds after which they are planned again. */
  until: number;
}

/** Facts that all users of an owned resource share. A user that changes one stores the new value here for the others. */
interface ResourceFacts {
  /** The tables; null before they are read or created. */
  shape: ResourceShape | null;
  /** Years that the view `calendar` covers; null before they are read. */
  years: Years | null;
  /** How many rejected records are unresolved. While there are none, storing a record need not look for its reject. */
  openRejects: number;
  /** Records that an operator had erased (`content-sync forget`): they must not be stored again. */
  forgotten: Forgotten;
  /**
   * Keys of records that are being fetched to verify their delete. A page that is stored meanwhile notes here when it saw
   * the record, so that it is not deleted by an older response.
   */
  readonly watches: Set<Map<string, number>>;
  /** Views that show narrower types than their values need, because external objects depend on them. */
  heldViews: readonly HeldView[];
  /** Columns whose types cannot change in this run, because external objects depend on them. */
  fixedColumns: readonly FixedColumn[];
}

/** One user's access to a resource that this process owns. */
export interface OwnedResource extends ResourceFacts {
  readonly resource: string;
  /** Returns the condition of the next transaction: this process still has the lease under which the facts were read. */
  lease(): LeaseProof;
  /**
   * Called after an error. Returns true if the database has lost confirmed commits, for example by a failover to a replica
   * that lagged behind: then the lease is acquired again, and the caller has to read all facts again.
   */
  recover(error: unknown): Promise<boolean>;
  /**
   * Acquires the lease again after another process took it, for the other users of the resource in this process: this access
   * itself can only be released then. Throws as `acquire` does.
   */
  reacquire(): Promise<void>;
  /** Ends this user's access. The last user's release frees the lease: after a while, or at once with `now`. */
  release(now?: boolean): Promise<void>;
  /** Reads again which records were erased; call it within `runAlone`. */
  rereadForgotten(): Promise<void>;
  /** The same object for all resources of the source. */
  readonly sourceViews: SourceViews;
  /** Writes in one transaction, which fails if another process has taken the lease. Does nothing without statements. */
  commit(statements: readonly CompiledQuery[]): Promise<void>;
  /** Runs `work` alone: a scan and a re-fetch must not write between each other's steps. */
  runAlone<T>(work: () => Promise<T>): Promise<T>;
}

/** The resources of one source that this process owns. */
export interface OwnedResources {
  /** Throws `SyncError('lease_held')` if another process owns the resource. */
  acquire(resource: string): Promise<OwnedResource>;
  /** Returns the erased records of a resource, without owning it. */
  readForgotten(resource: string): Promise<Forgotten>;
  /** Frees the resources that have no users any more. */
  close(): Promise<void>;
}

/**
 * Creates the access to the resources of a source. A released resource stays owned for `lingerMs`, because acquiring it
 * again costs several queries.
 */
export function ownResources(
  warehouse: Warehouse,
  clock: Clock,
  lingerMs = 0,
  privacy: PrivacyKey = NO_PRIVACY_KEY,
): OwnedResources {
  const sourceViews: SourceViews = { refreshed: Promise.resolve(), upToDate: null };
  const shared = new SharedResources({
    open: (resource) => openResource(warehouse, resource, clock, privacy),
    close: (opened) => opened.release(),
    clock,
    lingerMs,
  });
  return {
    acquire: async (resource) => createHandle(await shared.acquire(resource), warehouse, sourceViews),
    readForgotten: (resource) => readForgotten(warehouse.own, resource, privacy),
    close: () => shared.close(),
  };
}

/** What all users of one owned resource share. */
interface OpenResource {
  resource: string;
  facts: ResourceFacts;
  /** The current lease: `acquireAgain` replaces it. */
  lease: Lease;
  /** Runs one piece of work at a time. */
  queue: PQueue;
  rereadForgotten(): Promise<void>;
  /** Acquires the lease again, and reads the facts again: another owner, or a restored backup, may have changed them. */
  acquireAgain(): Promise<void>;
  release(): Promise<void>;
}

async function openResource(
  warehouse: Warehouse,
  resource: string,
  clock: Clock,
  privacy: PrivacyKey,
): Promise<OpenResource> {
  const { own } = warehouse;
  const lease = await acquireLease(warehouse, resource, clock);
  const read = Promise.all([readForgotten(own, resource, privacy), countOpenRejects(own, resource)]);
  const [forgotten, openRejects] = await read.catch(async (error: unknown) => {
    await lease.release();
    throw error;
  });
  const none = { shape: null, years: null, heldViews: [], fixedColumns: [] };
  const facts: ResourceFacts = { ...none, openRejects, forgotten, watches: new Set() };
  const opened: OpenResource = {
    resource,
    facts,
    lease,
    queue: new PQueue({ concurrency: 1 }),
    rereadForgotten: async () => {
      facts.forgotten = await readForgotten(own, resource, privacy);
    },
    acquireAgain: async () => {
      const next = await acquireLease(warehouse, resource, clock);
      await opened.lease.release();
      opened.lease = next;
      facts.shape = await readTables(warehouse, resource);
      facts.years = null;
      facts.openRejects = await countOpenRejects(own, resource);
      await opened.rereadForgotten();
    },
    release: async () => {
      await opened.queue.onIdle();
      await opened.lease.release();
    },
  };
  return opened;
}

/**
 * Creates the access of one user. It keeps the lease under which the user has read its facts: after another user has
 * acquired the lease again, the next transaction of this one fails, and it has to `recover` first.
 */
function createHandle(acquired: Acquired<OpenResource>, warehouse: Warehouse, sourceViews: SourceViews): OwnedResource {
  const opened = acquired.value;
  const { facts, queue } = opened;
  let { lease } = opened;
  const recoverLease = async (): Promise<boolean> => {
    if (lease === opened.lease) {
      if (!(await lease.isSetBack())) return false;
      await opened.acquireAgain();
    }
    lease = opened.lease;
    return true;
  };
  const access: Omit<OwnedResource, keyof ResourceFacts> = {
    resource: opened.resource,
    sourceViews,
    lease: () => lease.proof(),
    commit: async (statements) => {
      if (statements.length > 0) await warehouse.apply(statements, lease.proof());
    },
    runAlone: (work) => queue.add(work),
    rereadForgotten: () => opened.rereadForgotten(),
    reacquire: () => queue.add(() => opened.acquireAgain()),
    release: (now) => acquired.release(now),
    recover: async (error) => {
      // Errors other than `SyncError` may come from lost commits too: a table may no longer exist.
      if (error instanceof SyncError && error.code !== 'lease_lost') return false;
      // If the lease cannot be acquired, the caller reports its first error, which says more.
      return queue.add(recoverLease).catch(() => false);
    },
  };
  // `owned.shape` and the other facts are read from and written to the facts that all users share.
  for (const name of Object.keys(facts)) {
    const get = (): unknown => Reflect.get(facts, name);
    const set = (value: unknown): void => void Reflect.set(facts, name, value);
    Object.defineProperty(access, name, { enumerable: true, get, set });
  }
  // oxlint-disable-next-line no-unsafe-type-assertion
  return access as OwnedResource;
}
