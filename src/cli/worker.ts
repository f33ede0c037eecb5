import { Command, InvalidArgumentError } from 'commander';
import type { Logger } from 'pino';
import { ConfigError } from '../model/errors.ts';
import { untilAborted } from '../model/waiting.ts';
import { SourceActivity } from '../observe/activity.ts';
import { lostLines } from '../observe/log-stream.ts';
import { createLog } from '../observe/log.ts';
import { createMetrics, type Metrics } from '../observe/metrics.ts';
import type { ClusterSource } from '../serve/cluster/open-apps.ts';
import { isShared, joinCluster, type Cluster } from '../serve/cluster/join-cluster.ts';
import { exposedFiles, openPages } from '../serve/serve-warnings.ts';
import { logWalks, sourceWatcher } from '../serve/source-watcher.ts';
import type { Settings, SourceSettings } from '../settings/settings.ts';
import { startReceiver, type Receiver } from '../web/receiver/start-receiver.ts';
import { createWorkerPages } from '../web/worker-pages.ts';
import type { CliContext } from './command/context.ts';
import { EXIT_CODES, type ExitCode } from './command/exit-code.ts';
import { namedSources, readSettings, tellRefused, withSourceOptions, type SourceOptions } from './command/sources.ts';
import { doorFor, port } from './serve.ts';

type WorkerOptions = SourceOptions & { atOnce?: number; host?: string; port?: number };

/** `content-sync worker`: does the work that a `serve` on the same Postgres asks for, together with any number of others. */
export function workerCommand(context: CliContext): Command {
  return withSourceOptions(new Command('worker'))
    .option('--at-once <number>', 'walks under way at once; 8 where absent', walks)
    .option('--host <address>', 'address of health and metrics, in place of worker.host')
    .option('--port <number>', 'port of health and metrics, in place of worker.port; 0 picks a free one', port)
    .action(async (options: WorkerOptions) => context.exit(await work(context, options)));
}

async function work(context: CliContext, options: WorkerOptions): Promise<ExitCode> {
  const { version, clock, secrets, signal, stderr } = context;
  const settings = readSettings(context, options);
  const sources = namedSources(settings, options.source);
  refuseUnshared(sources);
  await tellRefused(context, settings, options.source);
  const log = createLog({ level: options.logLevel ?? settings.log.level, secrets, destination: stderr });
  for (const { message, hint } of exposedFiles(settings)) log.warn({ hint }, message);
  const metrics = createMetrics(version, () => lostLines(stderr));
  const known = sources.map((source) => watched(source, { context, log, metrics }));
  const { atOnce } = options;
  const cluster = joinCluster({ sources: known, clock, log, secrets, ...(atOnce === undefined ? {} : { atOnce }) });
  const door = await listen({ context, log, metrics, cluster, known }, settings, options).catch(async (error) => {
    await cluster.stop();
    throw error;
  });
  try {
    await cluster.ready();
    log.info({ sources: sources.length, ...(door === null ? {} : { url: door.url }) }, 'working');
    await Promise.race([untilAborted(signal), ...(door === null ? [] : [door.failed])]);
    log.info('stopping');
    return EXIT_CODES.ok;
  } finally {
    await cluster.stop();
    await door?.close();
    metrics.close();
  }
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
  known: readonly WatchedSource[];
}

/** Health and metrics, in the thread that answers them for `serve`; null where the settings want none. */
async function listen(parts: ListenParts, settings: Settings, options: WorkerOptions): Promise<Receiver | null> {
  const { context, log, cluster } = parts;
  const { auth, hosts } = settings.serve;
  const { host = settings.worker.host, port: wanted = settings.worker.port } = options;
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
      door: doorFor(parts, { auth, host, hosts }),
      failed: (error) => log.error({ err: error }, 'a page could not be made'),
    }),
    onArrival: () => undefined,
    onFigures: () => undefined,
    onNote: ({ level, event, ...rest }) => log[level](rest, event),
  });
}

/** What this process does; how sources and resources stand, only `serve` tells. */
function metricsText({ metrics, known }: ListenParts): Promise<string> {
  metrics.status.clear();
  for (const { source, activity } of known) {
    for (const resource of source.resources) {
      metrics.status.resource(source.name, resource, { running: activity.running(resource) !== null });
    }
  }
  return metrics.text();
}

function refuseUnshared(sources: readonly SourceSettings[]): void {
  const alone = sources.find((source) => !isShared(source));
  if (alone === undefined) return;
  throw new ConfigError('usage', `${alone.name} is kept in a SQLite file, which one process does all the work on`, {
    hint: 'use `content-sync serve` alone, or set warehouse: postgres://… to share the work (`content-sync copy` moves what is there)',
  });
}

function walks(text: string): number {
  const number = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (number > 0) return number;
  throw new InvalidArgumentError('It must be a number from 1 to 999.');
}
