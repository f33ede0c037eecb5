// `content-sync worker`: shares the work of a `serve` on the same Postgres with any number of other workers.
import { Command } from 'commander';
import type { Logger } from 'pino';
import type { ServeSettings, Settings } from '../config/settings.ts';
import { ConfigError } from '../model/errors.ts';
import { untilAborted } from '../model/waiting.ts';
import { createLog } from '../observe/log.ts';
import { createMetrics, type Metrics } from '../observe/metrics.ts';
import { Cluster, isShared } from '../server/cluster/cluster.ts';
import { createAccessCheck, createWrongPasswordReporter } from '../server/endpoints/page-access.ts';
import { createWorkerPages } from '../server/endpoints/status-pages.ts';
import { type Receiver, startReceiver } from '../server/receiver/start-receiver.ts';
import { openPages, settingsWarnings } from '../server/serve-warnings.ts';
import { type WatchedSource, watchSource } from '../server/source-supervisor.ts';
import { type CliContext, EXIT_CODES, type ExitCode, MAX_PORT, wholeNumber } from './command/context.ts';
import { readSettings, reportRefused, type SourceOptions, withSourceOptions } from './command/sources.ts';
import { logNote } from './serve.ts';

type WorkerOptions = SourceOptions & { atOnce?: number; host?: string; port?: number };

export function workerCommand(context: CliContext): Command {
  return withSourceOptions(new Command('worker'))
    .option('--at-once <number>', 'Max scans in progress at once (default: 8)', wholeNumber('--at-once', 1, 999))
    .option('--host <address>', 'Address of health and metrics instead of worker.host')
    .option(
      '--port <number>',
      'Port of health and metrics instead of worker.port; 0 picks a free one',
      wholeNumber('--port', 0, MAX_PORT),
    )
    .action(async (options: WorkerOptions) => context.exit(await work(context, options)));
}

/** Does the work of all sources until the process is stopped, and serves health and metrics if there is a port. */
async function work(context: CliContext, options: WorkerOptions): Promise<ExitCode> {
  const { version, clock, secrets, stderr } = context;
  const settings = readWorkerSettings(context, options);
  await reportRefused(context, settings);
  const log = createLog({ level: options.logLevel ?? settings.log.level, secrets, destination: stderr });
  const metrics = createMetrics(version);
  const host = options.host ?? settings.worker.host;
  const port = options.port ?? settings.worker.port;
  const warnings = [
    ...settingsWarnings(settings),
    ...(port === null ? [] : openPages(host, settings.serve.auth, 'worker', 'the metrics')),
  ];
  for (const { message, hint } of warnings) log.warn({ hint }, message);
  const parts = { clock, log, metrics };
  const sources = Object.values(settings.sources).map((source) => watchSource(source, parts, 'info'));
  const cluster = new Cluster({ clock, log, secrets, atOnce: options.atOnce }, sources);
  let receiver: Receiver | null = null;
  try {
    if (port !== null) {
      const serve = { ...settings.serve, host, port };
      receiver = await serveHealth({ context, log, metrics, cluster, sources, serve });
    }
    await cluster.ready();
    log.info({ sources: sources.length, ...(receiver === null ? {} : { url: receiver.url }) }, 'working');
    await untilAborted(context.signal);
    log.info('stopping');
    return EXIT_CODES.ok;
  } finally {
    await cluster.stop();
    await receiver?.close();
    metrics.close();
  }
}

interface RunningWorker {
  context: CliContext;
  log: Logger;
  metrics: Metrics;
  cluster: Cluster;
  sources: readonly WatchedSource[];
  /** The settings of `serve`, with the address of the worker. */
  serve: ServeSettings;
}

/** Serves `/healthz`, `/readyz` and `/metrics`; a worker receives no webhooks. */
function serveHealth({ context, log, metrics, cluster, sources, serve }: RunningWorker): Promise<Receiver> {
  const { clock, secrets, signal } = context;
  const { host, port } = serve;
  return startReceiver({
    setting: 'worker',
    serve: { host, port },
    clock,
    secrets,
    sources: [],
    pages: createWorkerPages({
      ready: async () => {
        const stopping = signal.aborted;
        return { ready: !stopping && (await cluster.reachable()), stopping, sources: {} };
      },
      // Only `serve` reports the status of sources.
      metrics: () => {
        metrics.status.clear();
        for (const { source, activity } of sources) {
          for (const resource of source.resources) {
            metrics.status.resource(source.name, resource, { running: activity.running(resource) !== null });
          }
        }
        return metrics.text();
      },
      access: createAccessCheck({ serve, clock, onWrongPassword: createWrongPasswordReporter(metrics, log, clock) }),
      failed: (error) => log.error({ error }, 'a page could not be made'),
    }),
    onArrival: () => undefined,
    onAnswer: () => undefined,
    onNote: (note) => logNote(log, note),
  });
}

/** Throws `ConfigError` if a source is not in a database that several processes share. */
function readWorkerSettings(context: CliContext, options: WorkerOptions): Settings {
  const settings = readSettings(context, options);
  const unshared = Object.values(settings.sources).find((source) => !isShared(source));
  if (unshared === undefined) return settings;
  throw new ConfigError('usage', `${unshared.name} is kept in a SQLite file, which one process does all the work on`, {
    hint: 'use `content-sync serve` alone, or set warehouse: postgres://… to share the work',
  });
}
