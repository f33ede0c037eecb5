import { Command, InvalidArgumentError } from 'commander';
import type { Logger } from 'pino';
import { untilAborted } from '../model/waiting.ts';
import { lostLines } from '../observe/log-stream.ts';
import { createLog } from '../observe/log.ts';
import { createMetrics, type Metrics } from '../observe/metrics.ts';
import { isShared } from '../serve/cluster/join-cluster.ts';
import { serveSources, type ServedSources } from '../serve/serve-sources.ts';
import { exposedFiles, serveWarnings } from '../serve/serve-warnings.ts';
import type { ServeSettings, SourceSettings } from '../settings/settings.ts';
import { hiddenFields } from '../source/field-settings.ts';
import { inboxAddress } from '../warehouse/databases.ts';
import { createDoor } from '../web/door.ts';
import { createPages } from '../web/pages.ts';
import type { ReceivedSource } from '../web/receiver/setup.ts';
import { startReceiver, type Receiver } from '../web/receiver/start-receiver.ts';
import type { CliContext } from './command/context.ts';
import { EXIT_CODES, type ExitCode } from './command/exit-code.ts';
import { namedSources, readSettings, tellRefused, withSourceOptions, type SourceOptions } from './command/sources.ts';

type ServeOptions = SourceOptions & { host?: string; port?: number };

/** `content-sync serve`: keeps all sources fresh until it is stopped, and shows how they stand. */
export function serveCommand(context: CliContext): Command {
  return withSourceOptions(new Command('serve'))
    .option('--host <address>', 'address to listen on, in place of serve.host')
    .option('--port <number>', 'port to listen on, in place of serve.port; 0 picks a free one', port)
    .action(async (options: ServeOptions) => context.exit(await serve(context, options)));
}

async function serve(context: CliContext, options: ServeOptions): Promise<ExitCode> {
  const serving = await startServing(context, options);
  serving.log.info({ url: serving.url }, 'listening');
  try {
    await Promise.race([untilAborted(context.signal), serving.failed]);
    serving.log.info('stopping');
    // A service that was told to stop has done its job.
    return EXIT_CODES.ok;
  } finally {
    await serving.stop();
  }
}

/** Parses `--port`. */
export function port(text: string): number {
  const number = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN;
  if (number <= 65_535) return number;
  throw new InvalidArgumentError('It must be a number from 0 to 65535.');
}

/** A running service: its sources are kept fresh, and its pages and webhooks answered. */
export interface Serving {
  /** `http://127.0.0.1:8080`. */
  url: string;
  log: Logger;
  /** Rejects when it cannot go on; never resolves. */
  failed: Promise<never>;
  /** Finishes or rolls back what is under way, and closes everything. */
  stop(): Promise<void>;
}

/** Throws `ConfigError` if settings, address or inboxes cannot be used, before any request is sent to a service. */
export async function startServing(context: CliContext, options: ServeOptions): Promise<Serving> {
  const { version, clock, secrets, stderr } = context;
  const settings = readSettings(context, options);
  const sources = namedSources(settings, options.source);
  await tellRefused(context, settings, options.source);
  const log = createLog({ level: options.logLevel ?? settings.log.level, secrets, destination: stderr });
  const { host = settings.serve.host, port = settings.serve.port } = options;
  const address = { ...settings.serve, host, port };
  const warnings = [...serveWarnings(address, sources, clock.now()), ...exposedFiles(settings)];
  for (const { message, ...about } of warnings) log.warn(about, message);
  const metrics = createMetrics(version, () => lostLines(stderr));
  const refused = options.source === undefined ? settings.refused : [];
  const alerts = { channels: settings.alerts, publicUrl: settings.serve.public_url ?? null };
  const served = await serveSources({ sources, refused, version, clock, log, secrets, metrics, alerts });
  const receiver = await listen({ context, log, metrics, served }, address, sources).catch(async (error: unknown) => {
    await served.stop();
    throw error;
  });
  served.start((source) => receiver.inbox(source));
  return {
    url: receiver.url,
    log,
    failed: receiver.failed,
    stop: async () => {
      await served.stop();
      await receiver.close();
      metrics.close();
    },
  };
}

interface ListenParts {
  context: CliContext;
  log: Logger;
  metrics: Metrics;
  served: ServedSources;
}

function listen(parts: ListenParts, serve: ServeSettings, sources: readonly SourceSettings[]): Promise<Receiver> {
  const { context, log, served } = parts;
  return startReceiver({
    serve,
    clock: context.clock,
    secrets: context.secrets,
    sources: sources.flatMap(receivedSource),
    pages: createPages({
      snapshot: () => served.snapshot(),
      ready: () => served.ready(),
      tables: () => served.tables(),
      metrics: () => served.metrics(),
      door: doorFor(parts, serve),
      failed: (error) => log.error({ err: error }, 'a page could not be made'),
    }),
    onArrival: (source) => served.wake(source),
    onFigures: (figures) => {
      for (const [source, answers] of Object.entries(figures.sources)) served.received(source, answers);
    },
    onNote: ({ level, event, ...rest }) => log[level](rest, event),
  });
}

/** Who may see the pages of `serve` or `worker`; wrong passwords are counted and logged. */
export function doorFor(
  { context, log, metrics }: Pick<ListenParts, 'context' | 'log' | 'metrics'>,
  { auth, host, hosts }: Pick<ServeSettings, 'auth' | 'host' | 'hosts'>,
): ReturnType<typeof createDoor> {
  const refused = (lately: number): void => {
    metrics.pageRefused();
    // Few lines, however many guesses: the 1st, 2nd, 4th, 8th and so on.
    if (Number.isInteger(Math.log2(lately))) log.warn({ lately }, 'a wrong name or password was sent for the page');
  };
  return createDoor({ access: auth ?? null, hosts: [...hosts, host], clock: context.clock, refused });
}

function receivedSource({ name, webhook, profile, warehouse }: SourceSettings): ReceivedSource[] {
  if (webhook === null) return [];
  const asks = isShared({ warehouse }) ? 'workers' : 'nobody';
  const hidden = hiddenFields(profile);
  return [{ name, webhook, profile: profile.webhooks, inbox: inboxAddress(warehouse), asks, hidden }];
}
