import pMap from 'p-map';
import PQueue from 'p-queue';
import { messageOf, SyncError } from '../model/errors.ts';
import type { SourceActivity } from '../observe/activity.ts';
import type { Settings, SourceSettings } from '../settings/settings.ts';
import { cronTick, sharedTicks } from '../trigger/schedule/scheduler.ts';
import { Cluster, isShared } from './cluster/join-cluster.ts';
import type { Control } from './controls/control-request.ts';
import type { Receiving } from './received-inbox.ts';
import type { ChangedSource, SettingsChange } from './reload.ts';
import {
  keepSource,
  type PreparedSource,
  prepareSource,
  type ServedSource,
  type ServedSourceOptions,
  type SharedByLocal,
} from './served-source.ts';

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
  readonly #local: SharedByLocal;
  #settings: Settings;
  #receiving: Receiving | null = null;
  #isStopping = false;
  /** A change of the settings that is being put into effect. */
  #applying: Promise<void> = Promise.resolve();

  constructor(options: SourceSetOptions, settings: Settings) {
    this.#options = options;
    this.#settings = settings;
    this.#local = { opening: new PQueue({ concurrency: OPENING_AT_ONCE }), ticks: sharedTicks(cronTick()) };
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
    const { name } = source;
    const keeper = () => this.#served.get(name)?.keeper;
    const prepared = prepareSource(this.#options, source, keeper, this.#activities.get(name));
    this.#activities.set(name, prepared.activity);
    return prepared;
  }

  #keep(prepared: PreparedSource): void {
    const { name, webhook } = prepared.source;
    const inbox = webhook === null ? null : (this.#receiving?.inbox(name) ?? null);
    const shared = { cluster: this.#cluster, local: this.#local };
    this.#served.set(name, keepSource(this.#options, prepared, inbox, shared));
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
