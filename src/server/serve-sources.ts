import type { Clock } from '../model/clock.ts';
import type { Settings } from '../config/settings.ts';
import { alertSettings, type AlertSource, createAlerts } from './alerts/alerts.ts';
import { askElsewhere } from './controls/ask-serve.ts';
import type { Control, ControlAnswer, ControlledSource, ControlOrigin } from './controls/control-request.ts';
import { createControls } from './controls/create-controls.ts';
import type { SourceTables } from './dictionary/table-reader.ts';
import type { Receiving } from './received-inbox.ts';
import { createReloader, type SettingsChange } from './reload.ts';
import { createShownFiles, type ShownFiles } from './shown-files.ts';
import { type ServedSource, type ServedSourceOptions, SourceSet } from './source-set.ts';
import { type Collector, createCollector } from './status/collect.ts';
import { exposeStatus } from './status/metrics.ts';

export interface ServeSourcesOptions extends ServedSourceOptions {
  /** Those sources that are to be served, and all that holds beside them. */
  settings: Settings;
  /** Reads the settings again, whole. Throws `ConfigError` if they cannot be used. */
  load: () => Settings;
  /** Called with settings that were read again, before the sources change; puts into effect what stands beside them. */
  changed: (settings: Settings) => void;
  /** Of content-sync. */
  version: string;
}

/** The sources that a process keeps fresh, as the part sees them that listens for deliveries and page requests. */
export interface ServedSources extends Collector {
  /** Starts to keep all sources fresh. */
  start(receiving: Receiving): void;
  /** Called when deliveries for a source have been stored. */
  wake(source: string): void;
  /** Called for each webhook request, with what became of it and how long that took. */
  answered(source: string, result: string, seconds: number): void;
  /** What each source's warehouse holds. Does not throw, and waits some seconds at most. */
  tables(): Promise<SourceTables[]>;
  /** The contents of files that the copies name. */
  readonly files: ShownFiles;
  /** Prometheus text. */
  metrics(): Promise<string>;
  /** What the process can be told to do, by whoever may. */
  readonly control: Control;
  /** Reads the settings again; sources that did not change go on as they are. Never rejects. */
  reload(origin: ControlOrigin): Promise<ControlAnswer>;
  /** Finishes or rolls back what is under way, and closes all sources. */
  stop(): Promise<void>;
}

/**
 * The engine of `serve`: each source gets a keeper (`keeper.ts`), which runs the schedule and, on SQLite, does all the
 * work in this process; on Postgres the work goes to a cluster of processes, this one among them. Resolves once
 * deliveries may be stored; opens no source before `start`.
 */
export async function serveSources(options: ServeSourcesOptions): Promise<ServedSources> {
  const { settings, load, changed, version, clock, log, metrics } = options;
  const startedAt = clock.now();
  const sources: SourceSet = new SourceSet({ ...options, control: (...asked) => control(...asked) }, settings);
  await sources.ready();
  let { refused } = settings;
  const apply = async (change: SettingsChange, next: Settings): Promise<void> => {
    refused = next.refused;
    changed(next);
    await sources.apply(change, next);
    alerts.configure(alertSettings(next));
  };
  const reloader = createReloader({ settings, load, apply, clock, log });
  const collector = createCollector({
    version,
    clock,
    startedAt,
    sources: () => sources.all().map(({ parts }) => parts),
    refused: () => refused.filter(({ name }) => sources.get(name) === undefined),
    settings: () => reloader.refused(),
    alerts: () => alerts.status(),
    stopping: () => sources.isStopping,
  });
  const control = controlsOf(options, sources, (origin) => reloader.reload(origin));
  const alerts = alertsOf(options, sources, () => collector.snapshot());
  const files = createShownFiles({ source: (name) => shownSource(sources.get(name)), clock });
  return {
    ...collector,
    control,
    files,
    start: (receiving) => {
      sources.start(receiving);
      alerts.start();
    },
    wake: (source) => sources.get(source)?.keeper.wake(),
    answered: (source, ...answer) => sources.activity(source)?.webhookAnswered(...answer),
    tables: () => Promise.all(sources.all().map(({ tables }) => tables())),
    metrics: async () => {
      exposeStatus(metrics.status, await collector.snapshot());
      return metrics.text();
    },
    reload: (origin) => reloader.reload(origin),
    stop: async () => {
      // First, because it remembers in warehouses what it has told.
      await alerts.stop();
      await files.close();
      await sources.stop();
    },
  };
}

function alertsOf(
  { settings, clock, log, metrics, secrets }: ServeSourcesOptions,
  sources: SourceSet,
  snapshot: Collector['snapshot'],
): ReturnType<typeof createAlerts> {
  const told = { snapshot, sources: () => sources.all().map(alertSource) };
  return createAlerts({ ...alertSettings(settings), clock, log, metrics, secrets, ...told });
}

function shownSource(served: ServedSource | undefined) {
  return served === undefined ? undefined : { source: served.source, read: served.parts.read };
}

function alertSource({ source: { name }, keeper }: ServedSource): AlertSource {
  return { name, isLed: () => keeper.isLed, use: (work) => keeper.read(work) };
}

function controlsOf(
  { clock, log }: ServeSourcesOptions,
  sources: SourceSet,
  reload: (origin: ControlOrigin) => Promise<ControlAnswer>,
): Control {
  const source = (name: string): ControlledSource | undefined => {
    const served = sources.get(name);
    return served === undefined ? undefined : controlledSource(served, clock);
  };
  return createControls({ source, reload, clock, log });
}

/** A source with its keeper, as the controls see it. */
function controlledSource({ source, keeper }: ServedSource, clock: Clock): ControlledSource {
  return {
    source,
    clock,
    scheduler: () => keeper.scheduler,
    elsewhere: () => (keeper.isLed ? null : askElsewhere(source.warehouse, clock)),
    retry: (resources, now) => keeper.retry(resources, now),
    pausesChanged: () => keeper.pausesChanged(),
    wake: () => keeper.wake(),
  };
}
