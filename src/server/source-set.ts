import pMap from 'p-map';
import PQueue from 'p-queue';
import type { Logger } from 'pino';
import type { Clock } from '../model/clock.ts';
import { messageOf, SyncError } from '../model/errors.ts';
import { SourceActivity } from '../observe/activity.ts';
import type { Metrics } from '../observe/metrics.ts';
import { scrubOwn } from '../observe/scrub.ts';
import type { Settings, SourceSettings } from '../config/settings.ts';
import type { ClusterSource } from './cluster/cluster-work.ts';
import { Cluster, isShared } from './cluster/join-cluster.ts';
import type { Control } from './controls/control-request.ts';
import { createTableReader, type SourceTables } from './dictionary/table-reader.ts';
import { Keeper } from './keeper.ts';
import { LocalWork } from './local-work.ts';
import type { ReceivedInbox, Receiving } from './received-inbox.ts';
import type { ChangedSource, SettingsChange } from './reload.ts';
import { logWalks, sourceWatcher } from './source-watcher.ts';
import type { StatusParts } from './status/source-status.ts';

export interface ServedSourceOptions {
  clock: Clock;
  log: Logger;
  secrets: string[];
  metrics: Metrics;
}

/** A source before it is kept. */
interface PreparedSource extends ClusterSource {
  activity: SourceActivity;
}

/** A source that is kept fresh, until its settings change or it is taken out. */
export interface ServedSource extends PreparedSource {
  keeper: Keeper;
  /** As the status reads it. */
  parts: StatusParts;
  tables: () => Promise<SourceTables>;
}

/** Sources that are opened at the same time. */
const OPENING_AT_ONCE = 3;
/** Sources that are closed and opened again at the same time. */
const CHANGED_AT_ONCE = 4;

interface SourceSetOptions extends ServedSourceOptions {
  /** Does what other processes ask for by way of a database that they share. */
  control: Control;
}

/** The sources that this process keeps, each of which can be added, changed and taken out while the others go on. */
export class SourceSet {
  readonly #options: SourceSetOptions;
  readonly #served = new Map<string, ServedSource>();
  /** They stay when a source is taken out: what the receiver has counted for it stays as well. */
  readonly #activities = new Map<string, SourceActivity>();
  readonly #first: readonly PreparedSource[];
  readonly #cluster: Cluster;
  readonly #opening = new PQueue({ concurrency: OPENING_AT_ONCE });
  #settings: Settings;
  #receiving: Receiving | null = null;
  #isStopping = false;
  /** A change of the settings that is being put into effect. */
  #applying: Promise<void> = Promise.resolve();

  constructor(options: SourceSetOptions, settings: Settings) {
    this.#options = options;
    this.#settings = settings;
    this.#first = Object.values(settings.sources).map((source) => this.#prepare(source));
    const shared = this.#first.filter(({ source }) => isShared(source));
    this.#cluster = new Cluster({ ...options, sources: shared });
  }

  get isStopping(): boolean {
    return this.#isStopping;
  }

  /** In the order of the settings. */
  all(): ServedSource[] {
    return Object.keys(this.#settings.sources).flatMap((name) => this.#served.get(name) ?? []);
  }

  get(source: string): ServedSource | undefined {
    return this.#served.get(source);
  }

  activity(source: string): SourceActivity | undefined {
    return this.#activities.get(source);
  }

  /** Resolves once deliveries may be stored: each queues the work on it in the same transaction. */
  ready(): Promise<void> {
    return this.#cluster.ready();
  }

  /** Starts to keep the sources. */
  start(receiving: Receiving): void {
    this.#receiving = receiving;
    for (const prepared of this.#first) this.#keep(prepared);
    this.#cluster.lead();
  }

  /** Puts the change into effect; a source that cannot be changed is logged and does not keep the others from it. */
  apply(change: SettingsChange, settings: Settings): Promise<void> {
    this.#applying = this.#apply(change, settings);
    return this.#applying;
  }

  async #apply(change: SettingsChange, settings: Settings): Promise<void> {
    this.#settings = settings;
    const steps = [
      ...change.removed.map((source) => ({ source, work: () => this.#remove(source) })),
      ...change.changed.map((each) => ({ source: each.source, work: () => this.#change(each) })),
      ...change.added.map((source) => ({ source, work: () => this.#open(source) })),
    ];
    const step = async ({ source: { name }, work }: (typeof steps)[number]): Promise<void> => {
      if (this.#isStopping) return;
      await work().catch((error: unknown) =>
        this.#options.log.error({ source: name, error }, `the source could not be changed: ${messageOf(error)}`),
      );
    };
    await pMap(steps, step, { concurrency: CHANGED_AT_ONCE });
  }

  /** Finishes or rolls back what is under way, and closes all sources. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    const keepers = Array.from(this.#served.values(), ({ keeper }) => keeper.stop());
    await Promise.all([...keepers, this.#cluster.stop()]);
    // What it still opens, nobody would close; whoever calls the receiver must find it there.
    await this.#applying.catch(() => undefined);
  }

  #prepare(source: SourceSettings): PreparedSource {
    const { clock, log, metrics } = this.#options;
    const { name } = source;
    const own = log.child({ source: name });
    const activity = this.#activities.get(name) ?? new SourceActivity(name, clock, metrics);
    this.#activities.set(name, activity);
    const allowed = (): number | null => this.get(name)?.keeper.governor()?.allowedPerSecond ?? null;
    return { source, activity, log: own, watcher: sourceWatcher(activity, logWalks(own, clock, 'debug'), allowed) };
  }

  #keep(prepared: PreparedSource): void {
    const { clock, secrets } = this.#options;
    const { name, webhook } = prepared.source;
    const inbox = webhook === null ? null : (this.#receiving?.inbox(name) ?? null);
    const keeper = isShared(prepared.source) ? this.#cluster.keep(prepared, inbox) : this.#keepAlone(prepared, inbox);
    const parts = statusParts(prepared, keeper, inbox, secrets);
    this.#served.set(name, { ...prepared, keeper, parts, tables: createTableReader(parts, clock) });
  }

  #keepAlone({ source, log, watcher }: PreparedSource, inbox: ReceivedInbox | null): Keeper {
    const { clock, secrets } = this.#options;
    const own = { inbox, opening: this.#opening };
    const work = new LocalWork({ source, clock, log, secrets, watcher, ...own });
    const keeper = new Keeper({ source, clock, log, work });
    keeper.lead(true);
    return keeper;
  }

  async #open(source: SourceSettings): Promise<void> {
    if (this.#isStopping) return;
    const prepared = this.#prepare(source);
    if (isShared(source)) {
      this.#cluster.join(prepared);
      await this.#cluster.ready();
    }
    if (source.webhook !== null) await this.#receiving?.receive(source);
    // What was opened after the end began would be closed by nobody.
    if (!this.#isStopping) this.#keep(prepared);
  }

  /** Ends the work on a source; the page in hand is finished or rolled back. */
  async #close(source: SourceSettings): Promise<void> {
    const ended = this.#served.get(source.name)?.keeper.stop(settingsChanged());
    await Promise.all([ended, isShared(source) ? this.#cluster.leave(source) : undefined]);
  }

  async #remove(source: SourceSettings): Promise<void> {
    await this.#close(source);
    this.#served.delete(source.name);
    if (source.webhook !== null) await this.#receiving?.forget(source.name);
  }

  async #change({ old, source }: ChangedSource): Promise<void> {
    const { name, webhook, warehouse } = source;
    // A new secret holds at once, however long the page in hand takes; another inbox waits for the work on the old one.
    if (webhook !== null && old.webhook !== null && old.warehouse === warehouse) await this.#receiving?.receive(source);
    await this.#close(old);
    if (webhook === null && old.webhook !== null) await this.#receiving?.forget(name);
    await this.#open(source);
  }
}

/** The reason with which the work on a source is aborted that goes on with other settings. */
function settingsChanged(): SyncError {
  return new SyncError('interrupted', 'the settings of the source have changed', { recovery: 'stop' });
}

function statusParts(
  { source, activity }: PreparedSource,
  keeper: Keeper,
  inbox: ReceivedInbox | null,
  secrets: readonly string[],
): StatusParts {
  const { timezone, resources, ...usual } = source.schedule;
  return {
    source,
    activity,
    read: keeper.read,
    governor: () => keeper.governor(),
    schedule: (resource) => {
      const figures = keeper.schedule().find((each) => each.resource === resource);
      const moments = { next_at: figures?.nextAt ?? null, overdue_at: figures?.overdueAt ?? null };
      const { incremental = usual.incremental, full = usual.full } = resources[resource] ?? {};
      return { incremental, full, timezone, ...moments };
    },
    inbox: inbox === null ? null : () => inbox.figures(),
    deliveries: inbox === null ? null : (filter) => inbox.list(filter),
    scrub: (text) => scrubOwn(text, secrets),
  };
}
