import { Command, InvalidArgumentError } from 'commander';
import type { Logger } from 'pino';
import type { Settings, SourceSettings } from '../config/settings.ts';
import { ConfigError } from '../model/errors.ts';
import { untilAborted } from '../model/waiting.ts';
import { SourceActivity } from '../observe/activity.ts';
import { createLog, lostLines, setLogLevel } from '../observe/log.ts';
import { createMetrics, type Metrics } from '../observe/metrics.ts';
import type { ClusterSource } from '../server/cluster/cluster-work.ts';
import { Cluster, isShared } from '../server/cluster/join-cluster.ts';
import { createDoor, refusalNote } from '../server/endpoints/door.ts';
import { createWorkerPages, type PagesOptions } from '../server/endpoints/pages.ts';
import { type Receiver, startReceiver } from '../server/receiver/start-receiver.ts';
import { createReloader, type SettingsChange } from '../server/reload.ts';
import { openPages, settingsWarnings } from '../server/serve-warnings.ts';
import { logWalks, sourceWatcher } from '../server/source-watcher.ts';
import { type CliContext, EXIT_CODES, type ExitCode } from './command/context.ts';
import {
  readSettings,
  reloadedSettings,
  type SourceOptions,
  tellRefused,
  withSourceOptions,
} from './command/sources.ts';
import { logNote, port } from './serve.ts';

type WorkerOptions = SourceOptions & { atOnce?: number; host?: string; port?: number };

/** `content-sync worker`: shares the work of a `serve` on the same Postgres with any number of other workers. */
export function workerCommand(context: CliContext): Command {
  return withSourceOptions(new Command('worker'))
    .option('--at-once <number>', 'Max scans in progress at once (default: 8)', walks)
    .option('--host <address>', 'Address of health and metrics instead of worker.host')
    .option('--port <number>', 'Port of health and metrics instead of worker.port; 0 picks a free one', port)
    .action(async (options: WorkerOptions) => context.exit(await work(context, options)));
}

async function work(context: CliContext, options: WorkerOptions): Promise<ExitCode> {
  const { version, clock, secrets, signal, stderr } = context;
  const settings = sharedSettings(context, options);
  await tellRefused(context, settings);
  const log = createLog({ level: options.logLevel ?? settings.log.level, secrets, destination: stderr });
  for (const { message, hint } of settingsWarnings(settings)) log.warn({ hint }, message);
  const metrics = createMetrics(version, () => lostLines(stderr));
  const known = new Map<string, WatchedSource>();
  const watch = (source: SourceSettings): WatchedSource => {
    const watchedSource = watched(source, { context, log, metrics });
    known.set(source.name, watchedSource);
    return watchedSource;
  };
  const { atOnce } = options;
  const sources = Object.values(settings.sources).map(watch);
  const cluster = new Cluster({
    sources,
    clock,
    log,
    secrets,
    ...(atOnce === undefined ? {} : { atOnce }),
  });
  let current = settings;
  const serve = () => ({ ...current.serve, ...hostOf(current, options) });
  const parts: ListenParts = {
    context,
    log,
    metrics,
    cluster,
    known,
    door: createDoor({ serve, clock, refused: refusalNote(metrics, log) }),
  };
  const receiver = await listen(parts, settings, options).catch(async (error) => {
    await cluster.stop();
    throw error;
  });
  const load = (): Settings => reloadedSettings(context, () => sharedSettings(context, options));
  const apply = async ({ added, removed, changed }: SettingsChange, next: Settings): Promise<void> => {
    setLogLevel(log, options.logLevel ?? next.log.level);
    current = next;
    for (const source of removed) known.delete(source.name);
    await Promise.all([...removed, ...changed.map(({ old }) => old)].map((source) => cluster.leave(source)));
    for (const source of [...added, ...changed.map((each) => each.source)]) cluster.join(watch(source));
  };
  const reloader = createReloader({ settings, load, apply, clock, log });
  try {
    await cluster.ready();
    context.reloads?.(() => void reloader.reload({ via: 'signal', by: null }));
    log.info({ sources: sources.length, ...(receiver === null ? {} : { url: receiver.url }) }, 'working');
    await untilAborted(signal);
    log.info('stopping');
    return EXIT_CODES.ok;
  } finally {
    await cluster.stop();
    await receiver?.close();
    metrics.close();
  }
}

/** Throws `ConfigError` if a source is not kept on a database that many processes share. */
function sharedSettings(context: CliContext, options: WorkerOptions): Settings {
  const settings = readSettings(context, options);
  const alone = Object.values(settings.sources).find((source) => !isShared(source));
  if (alone === undefined) return settings;
  throw new ConfigError('usage', `${alone.name} is kept in a SQLite file, which one process does all the work on`, {
    hint: 'use `content-sync serve` alone, or set warehouse: postgres://… to share the work (`content-sync copy` moves what is there)',
  });
}

function hostOf({ worker }: Settings, { host = worker.host }: WorkerOptions): { host: string } {
  return { host };
}

interface WorkerParts {
  context: CliContext;
  log: Logger;
  metrics: Metrics;
}

interface WatchedSource extends ClusterSource {
  activity: SourceActivity;
}

function watched(source: SourceSettings, { context, log, metrics }: WorkerParts): WatchedSource {
  const { clock } = context;
  const own = log.child({ source: source.name });
  const activity = new SourceActivity(source.name, clock, metrics);
  // Which rate the service allows is the leader's to show.
  const watcher = sourceWatcher(activity, logWalks(own, clock, 'info'), () => null);
  return { source, log: own, activity, watcher };
}

interface ListenParts extends WorkerParts {
  cluster: Cluster;
  known: ReadonlyMap<string, WatchedSource>;
  door: PagesOptions['door'];
}

/** Serves health and metrics; null if the settings have no port for them. */
async function listen(parts: ListenParts, settings: Settings, options: WorkerOptions): Promise<Receiver | null> {
  const { context, log, cluster } = parts;
  const { auth } = settings.serve;
  const { host } = hostOf(settings, options);
  const { port: wanted = settings.worker.port } = options;
  if (wanted === null) return null;
  for (const { message, hint } of openPages({ host, auth }, 'worker', 'the metrics')) log.warn({ hint }, message);
  return startReceiver({
    setting: 'worker',
    serve: { host, port: wanted },
    clock: context.clock,
    secrets: context.secrets,
    sources: [],
    pages: createWorkerPages({
      ready: async () => {
        const stopping = context.signal.aborted;
        return { ready: !stopping && (await cluster.reachable()), stopping, sources: {} };
      },
      metrics: () => metricsText(parts),
      door: parts.door,
      failed: (error) => log.error({ error }, 'a page could not be made'),
    }),
    onArrival: () => undefined,
    onAnswer: () => undefined,
    onNote: (note) => logNote(log, note),
  });
}

/** The metrics of this process; only `serve` reports the status of sources. */
function metricsText({ metrics, known }: ListenParts): Promise<string> {
  metrics.status.clear();
  for (const { source, activity } of known.values()) {
    for (const resource of source.resources) {
      metrics.status.resource(source.name, resource, { running: activity.running(resource) !== null });
    }
  }
  return metrics.text();
}

function walks(text: string): number {
  const number = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (number > 0) return number;
  throw new InvalidArgumentError('It must be a number from 1 to 999.');
}
