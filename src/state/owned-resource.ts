import PQueue from 'p-queue';
import type { Clock } from '../model/clock.ts';
import { SyncError } from '../model/errors.ts';
import type { ResourceShape } from '../model/table.ts';
import { readTables } from './column-catalog.ts';
import { acquireLease, type Lease } from './leases.ts';
import { countOpenRejects } from './rejects.ts';
import type { LeaseProof, Warehouse } from '../warehouse/warehouse.ts';

/** A resource that this process owns: its tables as they stand, and the turns in which it is written. */
export interface OwnedResource {
  readonly resource: string;
  /** For the next transaction: of the lease under which all was read that it rests on. */
  lease(): LeaseProof;
  /**
   * To be asked when something went wrong. True where that came from the database, which was set back to a state from
   * before something that it had confirmed: then the resource is ours anew, and whatever was read has to be read again.
   */
  recover(error: unknown): Promise<boolean>;
  /** The tables that stand; null before they are read or made. Whoever makes them grow puts the new ones here. */
  shape: ResourceShape | null;
  /** Rejects that are open: while there are none, no record can resolve one. */
  openRejects: number;
  /** Keys that somebody asks the service about just now; a loader notes in them when it last met the record. */
  readonly watches: Set<Map<string, number>>;
  /** Turns begun so far: what was read since the latest began is still so, but for what that one writes. */
  readonly turns: number;
  /** Runs `work` when no other turn is under way: a walk and a re-fetch must not write between each other's steps. */
  takeTurn<T>(work: () => Promise<T>): Promise<T>;
}

/** The resources of one source that this process owns; whoever takes one that is held already shares it. */
export interface OwnedResources {
  /** Throws `SyncError('lease_held')` where another process owns the resource. */
  acquire(resource: string): Promise<OwnedResource>;
  /** After the last of those who took it the resource is free again: at once, or after a while where more may come. */
  release(resource: string, mayComeAgain?: boolean): Promise<void>;
  /** Becomes the owner anew where another process has taken over meanwhile. Throws as `take` does. */
  reacquire(resource: string): Promise<void>;
  /** Frees at once what nobody has taken any more. */
  close(): Promise<void>;
}

interface Held {
  owned: Promise<SharedOwnership>;
  takers: number;
  /** Grows with every taker, so that one that came and went in between is known. */
  taken: number;
}

/** Nothing is held at first. What may be taken again soon is kept for `lingerMs` more: taking costs some questions. */
export function ownResources(warehouse: Warehouse, clock: Clock, lingerMs = 0): OwnedResources {
  const held = new Map<string, Held>();
  const closing = new AbortController();
  const lingering = new Set<Promise<void>>();
  const release = async (resource: string, known: Held): Promise<void> => {
    if (known.takers > 0 || held.get(resource) !== known) return;
    held.delete(resource);
    await (await known.owned).release();
  };
  const releaseLater = async (resource: string, known: Held): Promise<void> => {
    const { taken } = known;
    await clock.sleep(lingerMs, closing.signal).catch(() => undefined);
    if (known.taken === taken) await release(resource, known);
  };
  return {
    async acquire(resource) {
      const known = held.get(resource) ?? {
        owned: SharedOwnership.open(warehouse, resource, clock),
        takers: 0,
        taken: 0,
      };
      held.set(resource, known);
      known.takers += 1;
      known.taken += 1;
      try {
        return new AcquiredResource(await known.owned);
      } catch (error) {
        if (held.get(resource) === known) held.delete(resource);
        throw error;
      }
    },
    async release(resource, mayComeAgain = false) {
      const known = held.get(resource);
      if (known === undefined) return;
      known.takers -= 1;
      if (known.takers > 0) return;
      if (!mayComeAgain || lingerMs === 0 || closing.signal.aborted) return release(resource, known);
      const later = releaseLater(resource, known).finally(() => lingering.delete(later));
      lingering.add(later);
    },
    async reacquire(resource) {
      const owned = await held.get(resource)?.owned;
      await owned?.takeTurn(() => owned.renew());
    },
    async close() {
      closing.abort();
      await Promise.all(lingering);
    },
  };
}

/** A resource as all who took it share it. */
class SharedOwnership {
  readonly resource: string;
  shape: ResourceShape | null = null;
  openRejects = 0;
  readonly watches = new Set<Map<string, number>>();
  turns = 0;
  lease: Lease;
  readonly #warehouse: Warehouse;
  readonly #clock: Clock;
  readonly #turns = new PQueue({ concurrency: 1 });

  private constructor(warehouse: Warehouse, resource: string, clock: Clock, lease: Lease) {
    this.resource = resource;
    this.#warehouse = warehouse;
    this.#clock = clock;
    this.lease = lease;
  }

  static async open(warehouse: Warehouse, resource: string, clock: Clock): Promise<SharedOwnership> {
    const lease = await acquireLease(warehouse, resource, clock);
    const owned = new SharedOwnership(warehouse, resource, clock, lease);
    owned.openRejects = await countOpenRejects(warehouse.own, resource);
    return owned;
  }

  takeTurn<T>(work: () => Promise<T>): Promise<T> {
    return this.#turns.add(() => {
      this.turns += 1;
      return work();
    });
  }

  async renew(): Promise<void> {
    const lease = await acquireLease(this.#warehouse, this.resource, this.#clock);
    await this.lease.release();
    this.lease = lease;
    // Whoever owned it in between may have made the tables grow; and what was set back has lost some.
    this.shape = await readTables(this.#warehouse, this.resource);
    this.openRejects = await countOpenRejects(this.#warehouse.own, this.resource);
  }

  async release(): Promise<void> {
    await this.#turns.onIdle();
    await this.lease.release();
  }
}

/** As one of them has it: where another one has become the owner anew, what this one knows is from before. */
class AcquiredResource implements OwnedResource {
  readonly #own: SharedOwnership;
  #lease: Lease;

  constructor(own: SharedOwnership) {
    this.#own = own;
    this.#lease = own.lease;
  }

  get resource(): string {
    return this.#own.resource;
  }

  get shape(): ResourceShape | null {
    return this.#own.shape;
  }

  set shape(shape: ResourceShape | null) {
    this.#own.shape = shape;
  }

  get openRejects(): number {
    return this.#own.openRejects;
  }

  set openRejects(count: number) {
    this.#own.openRejects = count;
  }

  get watches(): Set<Map<string, number>> {
    return this.#own.watches;
  }

  get turns(): number {
    return this.#own.turns;
  }

  lease(): LeaseProof {
    return this.#lease.proof();
  }

  takeTurn<T>(work: () => Promise<T>): Promise<T> {
    return this.#own.takeTurn(work);
  }

  async recover(error: unknown): Promise<boolean> {
    // What was lost may be missed by a statement before a lease is: a table that is no more is no error of ours.
    if (error instanceof SyncError && error.code !== 'lease_lost') return false;
    try {
      return await this.takeTurn(() => this.#catchUp());
    } catch {
      // The database is not there, or somebody else has the resource by now: the error at hand says more.
      return false;
    }
  }

  async #catchUp(): Promise<boolean> {
    const own = this.#own;
    if (this.#lease === own.lease) {
      if (!(await this.#lease.isSetBack())) return false;
      await own.renew();
    }
    this.#lease = own.lease;
    return true;
  }
}
