// Resources that this process owns: lease, known tables, and the slot in which they are written.
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

/** A managed view that cannot get wider types. */
export interface HeldView {
  view: string;
  resource: string | null;
  /** The object that depends on it, such as `view bi.total (of bi)`. */
  by: string;
  /** Its query as it would be with the wider types. */
  query: string;
  columns: readonly HeldColumn[];
}

/** A column that shows NULL, or less, for values that need the wider type. */
interface HeldColumn {
  name: string;
  type: ColumnType;
  needs: ColumnType;
}

/** A column of a table that cannot get a wider type. */
export interface FixedColumn {
  path: SourcePath;
  type: ColumnType;
  /** As in `HeldView`. */
  by: string;
}

/** The views of a source, as its resources bring them up to date one after the other. */
export interface SourceViews {
  /** Resolves once the last refresh is done. */
  refreshed: Promise<unknown>;
  /** The facts of the last plan that had nothing to change; null if there is none. */
  upToDate: UpToDateViews | null;
}

interface UpToDateViews {
  /** The profile for which they were planned. */
  whole: object;
  growths: number;
  names: readonly string[];
  heldViews: readonly HeldView[];
  /** Epoch milliseconds after which they are planned again. */
  until: number;
}

/** Facts of an owned resource that all its users share. */
interface ResourceFacts {
  /** Null before the tables are read or created. The code that changes them stores the new shape here. */
  shape: ResourceShape | null;
  /** Years that the calendar has; null before they are read. */
  years: Years | null;
  /** Open rejects: while there are none, no record can resolve one. */
  openRejects: number;
  /** Records that an operator had erased: they must not be stored again. */
  forgotten: Forgotten;
  /** Keys that are being fetched from the service; a loader notes when it last saw the record. */
  readonly watches: Set<Map<string, number>>;
  /** Views that show narrower types than their values need, because external objects depend on them. */
  heldViews: readonly HeldView[];
  /** Columns whose types cannot change in this run, because external objects depend on them. */
  fixedColumns: readonly FixedColumn[];
}

/** A resource that this process owns: its lease, its tables, and the commit slot. */
export interface OwnedResource extends ResourceFacts {
  readonly resource: string;
  /** Proof for the next transaction: of the lease under which its facts were read. */
  lease(): LeaseProof;
  /**
   * Called after an error. Returns true if the database has lost confirmed commits: then the lease is acquired again, and
   * the caller has to read all facts again.
   */
  recover(error: unknown): Promise<boolean>;
  /** Acquires the lease again after another process had taken it. Throws as `acquire` does. */
  reacquire(): Promise<void>;
  /** The last release frees the resource: after the lingering time, or at once with `now`. */
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
  /** Records of a resource that were erased; owns nothing. */
  readForgotten(resource: string): Promise<Forgotten>;
  /** Frees the resources that linger. */
  close(): Promise<void>;
}

/** A released resource stays owned for `lingerMs`, because acquiring it again costs several queries. */
export function ownResources(
  warehouse: Warehouse,
  clock: Clock,
  lingerMs = 0,
  privacy: PrivacyKey = NO_PRIVACY_KEY,
): OwnedResources {
  const sourceViews: SourceViews = { refreshed: Promise.resolve(), upToDate: null };
  const shared = new SharedResources({
    open: (resource) => openShared(warehouse, resource, clock, privacy),
    close: (owned) => owned.release(),
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
interface Shared {
  facts: ResourceFacts;
  lease: Lease;
  turns: PQueue;
  rereadForgotten(): Promise<void>;
  renew(): Promise<void>;
  release(): Promise<void>;
  resource: string;
}

async function openShared(warehouse: Warehouse, resource: string, clock: Clock, privacy: PrivacyKey): Promise<Shared> {
  const { own } = warehouse;
  const lease = await acquireLease(warehouse, resource, clock);
  const read = readForgotten(own, resource, privacy);
  const forgotten = await read.catch(async (error: unknown) => {
    await lease.release();
    throw error;
  });
  const openRejects = await countOpenRejects(own, resource);
  const none = { shape: null, years: null, heldViews: [], fixedColumns: [] };
  const facts: ResourceFacts = { ...none, openRejects, forgotten, watches: new Set() };
  const shared: Shared = {
    facts,
    lease,
    turns: new PQueue({ concurrency: 1 }),
    resource,
    rereadForgotten: async () => {
      facts.forgotten = await readForgotten(own, resource, privacy);
    },
    renew: async () => {
      const next = await acquireLease(warehouse, resource, clock);
      await shared.lease.release();
      shared.lease = next;
      // Another owner may have changed the tables meanwhile, and a set-back database has lost some.
      facts.shape = await readTables(warehouse, resource);
      facts.years = null;
      facts.openRejects = await countOpenRejects(own, resource);
      await shared.rereadForgotten();
    },
    release: async () => {
      await shared.turns.onIdle();
      await shared.lease.release();
    },
  };
  return shared;
}

/** Creates the handle of one user: after another user has renewed the lease, it still has the lease under which it read. */
function createHandle(acquired: Acquired<Shared>, warehouse: Warehouse, sourceViews: SourceViews): OwnedResource {
  const shared = acquired.value;
  const { facts, turns } = shared;
  let { lease } = shared;
  const catchUp = async (): Promise<boolean> => {
    if (lease === shared.lease) {
      if (!(await lease.isSetBack())) return false;
      await shared.renew();
    }
    lease = shared.lease;
    return true;
  };
  const view: Omit<OwnedResource, keyof ResourceFacts> = {
    resource: shared.resource,
    sourceViews,
    lease: () => lease.proof(),
    commit: async (statements) => {
      if (statements.length > 0) await warehouse.apply(statements, lease.proof());
    },
    runAlone: (work) => turns.add(work),
    rereadForgotten: () => shared.rereadForgotten(),
    reacquire: () => turns.add(() => shared.renew()),
    release: (now) => acquired.release(now),
    recover: async (error) => {
      // A statement may notice before the lease does: a table that no longer exists, for example, is no `SyncError`.
      if (error instanceof SyncError && error.code !== 'lease_lost') return false;
      // If the database cannot be reached, or another process owns the resource, the first error says more.
      return turns.add(catchUp).catch(() => false);
    },
  };
  const forwarded = Object.keys(facts).map((name) => {
    const get = (): unknown => Reflect.get(facts, name);
    const set = (value: unknown): void => void Reflect.set(facts, name, value);
    return [name, { enumerable: true, get, set }] as const;
  });
  // Facts are forwarded by name.
  // oxlint-disable-next-line no-unsafe-type-assertion
  return Object.defineProperties(view, Object.fromEntries(forwarded)) as OwnedResource;
}
