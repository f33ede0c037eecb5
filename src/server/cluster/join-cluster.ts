import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { waitAtMost } from '../../model/waiting.ts';
import type { SourceSettings } from '../../config/settings.ts';
import { sharedDatabase } from '../../database/databases.ts';
import type { Inbox } from '../../database/inbox.ts';
import type { Control } from '../controls/control-request.ts';
import { Keeper } from '../keeper.ts';
import { queueName } from '../work-items/work-items.ts';
import { type ClusterSource, ClusterWork } from './cluster-work.ts';
import { queuedWork } from './queued-work.ts';

interface ClusterOptions {
  /** Only such as `isShared`. */
  sources: readonly ClusterSource[];
  clock: Clock;
  log: Logger;
  secrets: string[];
  /** Walks under way at once in each database; 8 if absent. */
  atOnce?: number;
  /** Does what other processes ask for of sources that this one leads; absent in a process that leads none. */
  control?: Control;
}

const READY_MS = 5_000;
const REACHED_MS = 3_000;

/** True if several processes may work on the source. */
export function isShared({ warehouse }: Pick<SourceSettings, 'warehouse'>): boolean {
  return sharedDatabase(warehouse) !== null;
}

/** This process as one of many that work on the same databases. Takes work as soon as it is made. */
export class Cluster {
  readonly #options: ClusterOptions;
  /** By the database of their sources. */
  readonly #works = new Map<string, ClusterWork>();
  #isLeading = false;

  constructor(options: ClusterOptions) {
    this.#options = options;
    for (const source of options.sources) this.join(source);
  }

  /** Resolves once items can be queued, or after some seconds, so that a server that is away delays no start. */
  async ready(): Promise<void> {
    const opened = Array.from(this.#works.values(), ({ queue }) => queue.opened);
    await waitAtMost(this.#options.clock, READY_MS, Promise.all(opened));
  }

  /** Works on one more source from now on. */
  join(known: ClusterSource): void {
    const id = databaseOf(known.source);
    const work = this.#works.get(id) ?? new ClusterWork({ ...this.#options, address: known.source.warehouse });
    this.#works.set(id, work);
    work.join(known);
  }

  /**
   * Works on a source no more: gives back what is under way on it, and closes a database in which no source is left. Its
   * keeper must be stopped with this, if it has one.
   */
  async leave(source: SourceSettings): Promise<void> {
    const id = databaseOf(source);
    const work = this.#works.get(id);
    await work?.leave(queueName(source.warehouse));
    // Others of its sources may be left at the same time.
    if (work?.isEmpty !== true || this.#works.get(id) !== work) return;
    this.#works.delete(id);
    await work.stop();
  }

  /** True if each database answers within some seconds. */
  async reachable(): Promise<boolean> {
    const asked = Promise.all(Array.from(this.#works.values(), ({ queue }) => queue.probe()));
    return (await waitAtMost(this.#options.clock, REACHED_MS, asked).catch(() => null)) !== null;
  }

  /** Keeps a source fresh together with the other processes; queues what is due while this process leads the source. */
  keep(known: ClusterSource, inbox: Pick<Inbox, 'waiting'> | null): Keeper {
    const { source, log } = known;
    const { clock } = this.#options;
    const shared = this.#works.get(databaseOf(source));
    if (shared === undefined) throw new Error(`${source.name} is not a source of the cluster`);
    const keeper = new Keeper({ source, clock, log, work: queuedWork({ ...known, clock, shared, inbox }) });
    shared.keep(queueName(source.warehouse), keeper);
    if (this.#isLeading) shared.lead();
    return keeper;
  }

  /** Takes the lead of those sources that are kept here and not led by another process. */
  lead(): void {
    this.#isLeading = true;
    for (const work of this.#works.values()) work.lead();
  }

  /** Gives back work and leads. Must be called together with `stop` of the keepers, and not wait for them. */
  async stop(): Promise<void> {
    await Promise.all(Array.from(this.#works.values(), (work) => work.stop()));
  }
}

/** Sources share a database if their addresses differ in the schema only. */
function databaseOf({ warehouse }: SourceSettings): string {
  return sharedDatabase(warehouse)?.id ?? '';
}
