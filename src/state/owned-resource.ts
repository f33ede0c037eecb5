import PQueue from 'p-queue';
import type { Years } from '../model/calendar-day.ts';
import type { Clock } from '../model/clock.ts';
import { SyncError } from '../model/errors.ts';
import { SharedResources, type Acquired } from '../model/shared-resources.ts';
import type { ResourceShape, SourcePath } from '../model/table.ts';
import type { ColumnType } from '../model/vocabulary.ts';
import { readTables } from './column-catalog.ts';
import { NO_PRIVACY_KEY, readForgotten, type Forgotten, type PrivacyKey } from './forgotten.ts';
import { acquireLease, type Lease } from './leases.ts';
import { countOpenRejects } from './rejects.ts';
import type { LeaseProof, Warehouse } from '../warehouse/warehouse.ts';

/** A view of ours that cannot get wider types. */
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
export interface HeldColumn {
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

/** A resource that this process owns: its tables as they are, and the turns in which it is written. */
export interface OwnedResource {
  readonly resource: string;
  /** For the next transaction: proof of the lease under which everything that it rests on was read. */
  lease(): LeaseProof;
  /**
   * Called when something went wrong. Returns true if the database was set back to a state from before something that
   * it had confirmed: then the resource is owned anew, and whatever was read has to be read again.
   */
  recover(error: unknown): Promise<boolean>;
  /** Becomes the owner anew after another process has taken over. Throws as `acquire` does. */
  reacquire(): Promise<void>;
  /** The resource is free again after the last release: after the lingering time, or at once with `now`. */
  release(now?: boolean): Promise<void>;
  /** Null before the tables are read or created. Whoever makes them grow puts the new shape here. */
  shape: ResourceShape | null;
  /** Years that the calendar has, at the least; null before that is read. It never loses one. */
  years: Years | null;
  /** Open rejects: while there are none, no record can resolve one. */
  openRejects: number;
  /** Records that a person has had erased: nothing of them is stored any more. */
  readonly forgotten: Forgotten;
  /** Reads anew what was erased; to be called in a turn. */
  rereadForgotten(): Promise<void>;
  /** Keys that are being asked for at the service just now; a loader notes in them when it last met the record. */
  readonly watches: Set<Map<string, number>>;
  /** Views that show narrower types than their values need, because objects of others depend on them. */
  heldViews: readonly HeldView[];
  /** Columns whose types cannot change in this run, because objects of others depend on them. */
  fixedColumns: readonly FixedColumn[];
  /** Runs `work` when no other turn is under way: a walk and a re-fetch must not write between each other's steps. */
  takeTurn<T>(work: () => Promise<T>): Promise<T>;
}

/** The resources of one source that this process owns, shared by all who acquire them. */
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
  const shared = new SharedResources({
    open: (resource) => SharedOwnership.open(warehouse, resource, clock, privacy),
    close: (owned) => owned.release(),
    linger: { clock, ms: lingerMs },
  });
  return {
    acquire: async (resource) => viewOf(await shared.acquire(resource)),
    readForgotten: (resource) => readForgotten(warehouse.own, resource, privacy),
    close: () => shared.close(),
  };
}

interface OwnershipParts {
  warehouse: Warehouse;
  resource: string;
  clock: Clock;
  privacy: PrivacyKey;
  lease: Lease;
  forgotten: Forgotten;
}

/** A resource as shared by all who acquired it. */
class SharedOwnership {
  readonly resource: string;
  shape: ResourceShape | null = null;
  years: Years | null = null;
  openRejects = 0;
  readonly watches = new Set<Map<string, number>>();
  heldViews: readonly HeldView[] = [];
  fixedColumns: readonly FixedColumn[] = [];
  readonly turns = new PQueue({ concurrency: 1 });
  forgotten: Forgotten;
  lease: Lease;
  readonly #warehouse: Warehouse;
  readonly #clock: Clock;
  readonly #privacy: PrivacyKey;

  private constructor(parts: Readonly<OwnershipParts>) {
    this.resource = parts.resource;
    this.#warehouse = parts.warehouse;
    this.#clock = parts.clock;
    this.#privacy = parts.privacy;
    this.lease = parts.lease;
    this.forgotten = parts.forgotten;
  }

  static async open(
    warehouse: Warehouse,
    resource: string,
    clock: Clock,
    privacy: PrivacyKey,
  ): Promise<SharedOwnership> {
    const lease = await acquireLease(warehouse, resource, clock);
    const read = readForgotten(warehouse.own, resource, privacy);
    const forgotten = await read.catch(async (error: unknown) => {
      await lease.release();
      throw error;
    });
    const owned = new SharedOwnership({ warehouse, resource, clock, privacy, lease, forgotten });
    owned.openRejects = await countOpenRejects(warehouse.own, resource);
    return owned;
  }

  async rereadForgotten(): Promise<void> {
    this.forgotten = await readForgotten(this.#warehouse.own, this.resource, this.#privacy);
  }

  async renew(): Promise<void> {
    const lease = await acquireLease(this.#warehouse, this.resource, this.#clock);
    await this.lease.release();
    this.lease = lease;
    // An owner in between may have made the tables grow, and a set-back database has lost some.
    this.shape = await readTables(this.#warehouse, this.resource);
    this.years = null;
    this.openRejects = await countOpenRejects(this.#warehouse.own, this.resource);
    await this.rereadForgotten();
  }

  async release(): Promise<void> {
    await this.turns.onIdle();
    await this.lease.release();
  }
}

/** One user's view of it: after another user has renewed the lease, what this one has read is from before. */
function viewOf(acquired: Acquired<SharedOwnership>): OwnedResource {
  const own = acquired.value;
  let { lease } = own;
  const catchUp = async (): Promise<boolean> => {
    if (lease === own.lease) {
      if (!(await lease.isSetBack())) return false;
      await own.renew();
    }
    lease = own.lease;
    return true;
  };
  return {
    resource: own.resource,
    watches: own.watches,
    lease: () => lease.proof(),
    takeTurn: (work) => own.turns.add(work),
    rereadForgotten: () => own.rereadForgotten(),
    get forgotten() {
      return own.forgotten;
    },
    reacquire: () => own.turns.add(() => own.renew()),
    release: (now) => acquired.release(now),
    recover: async (error) => {
      // A statement may notice before the lease does: a table that no longer exists, for example, is no `SyncError`.
      if (error instanceof SyncError && error.code !== 'lease_lost') return false;
      // If the database cannot be reached, or another process owns the resource by now, the error at hand says more.
      return own.turns.add(catchUp).catch(() => false);
    },
    get shape() {
      return own.shape;
    },
    set shape(shape) {
      own.shape = shape;
    },
    get heldViews() {
      return own.heldViews;
    },
    set heldViews(views) {
      own.heldViews = views;
    },
    get fixedColumns() {
      return own.fixedColumns;
    },
    set fixedColumns(columns) {
      own.fixedColumns = columns;
    },
    get years() {
      return own.years;
    },
    set years(years) {
      own.years = years;
    },
    get openRejects() {
      return own.openRejects;
    },
    set openRejects(count) {
      own.openRejects = count;
    },
  };
}
