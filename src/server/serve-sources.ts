import pMap from 'p-map';
import PQueue from 'p-queue';
import type { Logger } from 'pino';
import type { Settings, SourceSettings } from '../config/settings.ts';
import type { Clock } from '../model/clock.ts';
import { messageOf, SyncError } from '../model/errors.ts';
import type { Metrics } from '../observe/metrics.ts';
import { scrubOwn } from '../observe/scrub.ts';
import { Alerts, alertSettings } from './alerts/alerts.ts';
import { Cluster, isShared } from './cluster/cluster.ts';
import type { Control } from './controls/control-request.ts';
import { createControls } from './controls/create-controls.ts';
import { localWork } from './local-work.ts';
import { combineWatchers, logRuns } from './log-runs.ts';
import { type ChangedSource, createReloader, type SettingsChange } from './reload.ts';
import { SourceActivity } from './source-activity.ts';
import { type ReceivedInbox, SourceSupervisor, type WatchedSource } from './source-supervisor.ts';
import { createCollector } from './status/collect.ts';
import { exposeStatus } from './status/metrics.ts';
import { scheduleStatus, type StatusParts } from './status/source-status.ts';

interface ServeSourcesOptions {
  settings: Settings;
  /** Reads the settings again. Throws `ConfigError` if they cannot be used. */
  load: () => Settings;
  /** Called with settings that were read again, before the sources change. */
  changed: (settings: Settings) => void;
  /** Of content-sync. */
  version: string;
  clock: Clock;
  log: Logger;
  secrets: string[];
  metrics: Metrics;
}

/** The sources that a process keeps fresh, for the receiver and the page. */
export type ServedSources = Awaited<ReturnType<typeof serveSources>>;

/**
 * The engine of `serve`: each source gets a supervisor, which runs the schedule and, on SQLite, does all the work in
 * this process; on Postgres the work goes to a cluster of processes, this one among them. Resolves once deliveries may
 * be stored; opens no source before `start`.
 */
export async function serveSources(options: ServeSourcesOptions) {
  const { settings, load, changed, version, clock, log, metrics } = options;
  const sources: SourceSet = new SourceSet({ ...options, control: (...sent) => control(...sent) }, settings);
  await sources.ready();
  let { refused } = settings;
  const apply = async (change: SettingsChange, next: Settings): Promise<void> => {
    refused = next.refused;
    changed(next);
    await sources.apply(change, next);
    alerts.configure(alertSettings(next));
  };
  const { reload, refused: refusedSettings } = createReloader({ settings, load, apply, clock, log });
  const collector = createCollector({
    version,
    clock,
    startedAt: clock.now(),
    sources: () => sources.all().map(({ parts }) => parts),
    refused: () => refused.filter(({ name }) => sources.get(name) === undefined),
    settings: refusedSettings,
    alerts: () => alerts.status(),
    stopping: () => sources.isStopping,
  });
  const supervisor = (source: string) => sources.get(source)?.supervisor;
  const control = createControls({ supervisor, reload, clock, log });
  const alerts = new Alerts({
    ...options,
    ...alertSettings(settings),
    snapshot: collector.snapshot,
    sources: () =>
      sources.all().map(({ supervisor: own }) => ({ name: own.source.name, isLed: () => own.isLed, use: own.read })),
  });
  return {
    ...collector,
    /** Carries out requests of users. */
    control,
    /** Starts to keep all sources fresh. */
    start: (receiver: WebhookReceiver): void => {
      sources.start(receiver);
      alerts.start();
    },
    /** Called when deliveries for a source have been stored. */
    wake: (source: string): void => supervisor(source)?.work.wake(),
    /** Called for each webhook request, with its result and how long that took. */
    answered: (source: string, result: string, seconds: number): void =>
      sources.activity(source).webhookAnswered(result, seconds),
    /** Prometheus text. */
    metrics: async (): Promise<string> => {
      exposeStatus(metrics.status, await collector.snapshot());
      return metrics.text();
    },
    /** Reads the settings again; unchanged sources continue. Never rejects. */
    reload,
    /** Finishes or rolls back what is in progress, and closes all sources. */
    stop: async (): Promise<void> => {
      // First, because it stores in warehouses what it has reported.
      await alerts.stop();
      await sources.stop();
    },
  };
}

/** The receiver of webhooks. */
interface WebhookReceiver {
  /** The inbox of a source that receives webhooks. */
  inbox(source: string): ReceivedInbox;
  /** Answers deliveries by these settings from now on, without a gap; its inbox may be another one. */
  receive(source: SourceSettings): Promise<void>;
  /** Stops answering deliveries for the source, and closes its inbox. */
  forget(source: string): Promise<void>;
}

/** A source that is kept fresh, until its settings change or it is removed. */
interface ServedSource {
  supervisor: SourceSupervisor;
  parts: StatusParts;
}

interface SourceSetOptions {
  clock: Clock;
  log: Logger;
  secrets: string[];
  metrics: Metrics;
  /** Carries out requests of other processes that share a database. */
  control: Control;
}

/** Sources that are opened in parallel. */
const MAX_OPENING = 3;
/** Sources that are closed and opened again in parallel. */
const MAX_CHANGING = 4;

/** The sources that this process keeps fresh. Each can be added, changed and removed while the others continue. */
class SourceSet {
  readonly #options: SourceSetOptions;
  readonly #served = new Map<string, ServedSource>();
  /** They outlive their source, with what the receiver has counted for it. */
  readonly #activities = new Map<string, SourceActivity>();
  readonly #cluster: Cluster;
  readonly #opening = new PQueue({ concurrency: MAX_OPENING });
  #settings: Settings;
  #receiver: WebhookReceiver | null = null;
  #isStopping = false;
  /** A change of the settings that is being applied. */
  #applying: Promise<unknown> = Promise.resolve();

  constructor(options: SourceSetOptions, settings: Settings) {
    this.#options = options;
    this.#settings = settings;
    this.#cluster = new Cluster(options);
    for (const source of Object.values(settings.sources)) {
      if (isShared(source)) this.#cluster.join(this.#watch(source));
    }
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

  /** Created with its first use. */
  activity(name: string): SourceActivity {
    const { clock, metrics } = this.#options;
    const allowed = (): number | null => this.get(name)?.supervisor.work.governor()?.allowedPerSecond ?? null;
    const activity = this.#activities.get(name) ?? new SourceActivity(name, clock, metrics, allowed);
    this.#activities.set(name, activity);
    return activity;
  }

  /** Resolves once deliveries may be stored: each queues its processing in the same transaction. */
  ready(): Promise<void> {
    return this.#cluster.ready();
  }

  start(receiver: WebhookReceiver): void {
    this.#receiver = receiver;
    for (const source of Object.values(this.#settings.sources)) this.#supervise(source);
    this.#cluster.lead();
  }

  /** Applies the change; a source that cannot be changed is logged and does not keep the others from it. */
  async apply({ removed, changed, added }: SettingsChange, settings: Settings): Promise<void> {
    this.#settings = settings;
    const steps = [
      ...removed.map((source) => ({ source, work: () => this.#remove(source) })),
      ...changed.map((each) => ({ source: each.source, work: () => this.#change(each) })),
      ...added.map((source) => ({ source, work: () => this.#add(source) })),
    ];
    const step = async ({ source: { name: source }, work }: (typeof steps)[number]): Promise<void> => {
      if (this.#isStopping) return;
      const failed = (error: unknown): void =>
        this.#options.log.error({ source, error }, `the source could not be changed: ${messageOf(error)}`);
      await work().catch(failed);
    };
    this.#applying = pMap(steps, step, { concurrency: MAX_CHANGING });
    await this.#applying;
  }

  /** Finishes or rolls back what is in progress, and closes all sources. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    const stopped = Array.from(this.#served.values(), ({ supervisor }) => supervisor.stop());
    await Promise.all([...stopped, this.#cluster.stop()]);
    // Waits for sources that are being opened, while the receiver still exists.
    await this.#applying.catch(() => undefined);
  }

  #watch(source: SourceSettings): WatchedSource {
    const log = this.#options.log.child({ source: source.name });
    const activity = this.activity(source.name);
    return { source, log, activity, watcher: combineWatchers(activity, logRuns(log, this.#options.clock, 'debug')) };
  }

  #supervise(source: SourceSettings): void {
    const { clock, secrets } = this.#options;
    const { name, webhook } = source;
    const watched = this.#watch(source);
    const inbox = webhook === null ? null : (this.#receiver?.inbox(name) ?? null);
    const local = { ...watched, clock, secrets, inbox, opening: this.#opening };
    const supervisor = isShared(source)
      ? this.#cluster.supervise(watched, inbox)
      : new SourceSupervisor({ ...watched, clock, work: localWork(local) });
    if (!isShared(source)) supervisor.lead(true);
    const parts: StatusParts = {
      source,
      activity: watched.activity,
      read: supervisor.read,
      governor: () => supervisor.work.governor(),
      schedule: (resource) => scheduleStatus(source.schedule, resource, supervisor.schedule(resource)),
      inbox: inbox && (() => inbox.figures()),
      deliveries: inbox && ((filter) => inbox.list(filter)),
      scrub: (text) => scrubOwn(text, secrets),
    };
    this.#served.set(name, { supervisor, parts });
  }

  async #add(source: SourceSettings): Promise<void> {
    if (this.#isStopping) return;
    if (isShared(source)) {
      this.#cluster.join(this.#watch(source));
      await this.#cluster.ready();
    }
    if (source.webhook !== null) await this.#receiver?.receive(source);
    // After the end has begun, no step would close it.
    if (!this.#isStopping) this.#supervise(source);
  }

  /** Ends the work on a source; the page in progress is finished or rolled back. */
  async #close(source: SourceSettings): Promise<void> {
    const message = 'the settings of the source have changed';
    const reason = new SyncError('interrupted', message, { recovery: 'stop' });
    const ended = this.#served.get(source.name)?.supervisor.stop(reason);
    await Promise.all([ended, isShared(source) ? this.#cluster.leave(source) : undefined]);
  }

  async #remove(source: SourceSettings): Promise<void> {
    await this.#close(source);
    this.#served.delete(source.name);
    if (source.webhook !== null) await this.#receiver?.forget(source.name);
  }

  async #change({ old, source }: ChangedSource): Promise<void> {
    const { name, webhook, warehouse } = source;
    // A new secret applies at once, however long the page in progress takes; another inbox waits for the work on the old one.
    if (webhook !== null && old.webhook !== null && old.warehouse === warehouse) await this.#receiver?.receive(source);
    await this.#close(old);
    if (webhook === null && old.webhook !== null) await this.#receiver?.forget(name);
    await this.#add(source);
  }
}
