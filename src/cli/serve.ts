import { Command, InvalidArgumentError } from 'commander';
import type { Logger } from 'pino';
import { hiddenFields } from '../config/profile/record-fields.ts';
import type { ServeSettings, Settings, SourceSettings } from '../config/settings.ts';
import { inboxAddress } from '../database/databases.ts';
import type { Clock } from '../model/clock.ts';
import { untilAborted } from '../model/waiting.ts';
import { createLog } from '../observe/log.ts';
import { createMetrics, type Metrics } from '../observe/metrics.ts';
import { isShared } from '../server/cluster/cluster.ts';
import { createControlEndpoint } from '../server/endpoints/control-endpoint.ts';
import { openControlSocket } from '../server/endpoints/control-socket.ts';
import { createAccessCheck, refusalNote } from '../server/endpoints/page-access.ts';
import { createPages, type Pages } from '../server/endpoints/pages.ts';
import { createRefusalLog, type ReceivedSource, type ReceiverNote } from '../server/receiver/setup.ts';
import { startReceiver } from '../server/receiver/start-receiver.ts';
import { recipientOf } from '../server/receiver/webhook.ts';
import { type ServedSources, serveSources } from '../server/serve-sources.ts';
import { serveWarnings, settingsWarnings } from '../server/serve-warnings.ts';
import { type CliContext, EXIT_CODES, type ExitCode } from './command/context.ts';
import { readSettings, reloadedSettings, type SourceOptions, tellRefused, withSourceOptions } from './command/sources.ts';

type ServeOptions = SourceOptions & { host?: string; port?: number };

/** `content-sync serve`: keeps all sources fresh until it is stopped, and shows their status. */
export function serveCommand(context: CliContext): Command {
  return withSourceOptions(new Command('serve'))
    .option('--host <address>', 'Address to listen on instead of serve.host')
    .option('--port <number>', 'Port to listen on instead of serve.port; 0 picks a free one', port)
    .action(async (options: ServeOptions) => context.exit(await serveUntilStopped(context, options)));
}

async function serveUntilStopped(context: CliContext, options: ServeOptions): Promise<ExitCode> {
  const serving = await startServing(context, options);
  serving.log.info({ url: serving.url }, 'listening');
  try {
    await untilAborted(context.signal);
    serving.log.info('stopping');
    // A requested stop is no failure.
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
  /** Finishes or rolls back work in progress, and closes everything. */
  stop(): Promise<void>;
}

/** Throws `ConfigError` if settings, address or inboxes cannot be used, before any request is sent to a service. */
export async function startServing(context: CliContext, options: ServeOptions): Promise<Serving> {
  const { version, clock, secrets, stderr } = context;
  const settings = readServeSettings(context, options);
  await tellRefused(context, settings);
  let level = options.logLevel ?? settings.log.level;
  let current = settings.serve;
  const lost = { count: 0 };
  const log = createLog({ level: () => level, secrets, destination: stderr, lost });
  logWarnings(log, settings, clock.now());
  const metrics = createMetrics(version, () => lost.count);
  const load = (): Settings => reloadedSettings(context, () => readServeSettings(context, options));
  const changed = (next: Settings): void => {
    level = options.logLevel ?? next.log.level;
    logWarnings(log, next, clock.now());
    current = next.serve;
  };
  const served = await serveSources({ settings, load, changed, version, clock, log, secrets, metrics });
  const pages = createServePages(served, metrics, log, clock, () => current);
  const receiver = await startReceiver({
    serve: settings.serve,
    clock,
    secrets,
    sources: Object.values(settings.sources).flatMap(receivedSource),
    pages,
    onArrival: (source) => served.wake(source),
    onAnswer: (...answer) => served.answered(...answer),
    onNote: (note) => logNote(log, note),
  }).catch(async (error: unknown) => {
    await served.stop();
    throw error;
  });
  served.start({
    inbox: (source) => receiver.inbox(source),
    receive: async (source) => {
      for (const received of receivedSource(source)) await receiver.receive(received);
    },
    forget: (source) => receiver.forget(source),
  });
  const { control: path } = settings;
  const socket = path === null ? null : await openControlSocket({ path, pages, log });
  context.reloads?.(() => void served.reload({ via: 'signal', by: null }));
  return {
    url: receiver.url,
    log,
    stop: async () => {
      await served.stop();
      await socket?.close();
      await receiver.close();
      metrics.close();
    },
  };
}

/** With the address of the command line. Throws `ConfigError`, also if the receiver cannot use a source. */
function readServeSettings(context: CliContext, options: ServeOptions): Settings {
  const settings = readSettings(context, options);
  for (const source of Object.values(settings.sources).flatMap(receivedSource)) recipientOf(source, []);
  const { serve } = settings;
  return { ...settings, serve: { ...serve, host: options.host ?? serve.host, port: options.port ?? serve.port } };
}

function logWarnings(log: Logger, settings: Settings, now: number): void {
  const sources = Object.values(settings.sources);
  const warnings = [...serveWarnings(settings.serve, sources, now), ...settingsWarnings(settings)];
  for (const { message, ...about } of warnings) log.warn(about, message);
}

/** The pages over the port and the control socket; `serve` returns the settings that hold now. */
function createServePages(
  served: ServedSources,
  metrics: Metrics,
  log: Logger,
  clock: Clock,
  serve: () => ServeSettings,
): Pages {
  const { control } = served;
  const reportRefusal = createRefusalLog((refusal) => log.warn(refusal, 'a form of the page was refused'), clock);
  const refused = (reason: string): void => reportRefusal(null, reason);
  const controls = createControlEndpoint({ control, serve, clock, refused });
  return createPages({
    ...served,
    access: createAccessCheck({ serve, clock, refused: refusalNote(metrics, log) }),
    // Without a password anyone who can reach the page could control the process.
    controls: () => (serve().auth === undefined ? null : controls),
    failed: (error) => log.error({ error }, 'a page could not be made'),
  });
}

function receivedSource({ name, webhook, profile, warehouse }: SourceSettings): ReceivedSource[] {
  if (webhook === null) return [];
  const asks = isShared({ warehouse }) ? 'workers' : 'nobody';
  const hidden = hiddenFields(profile);
  return [{ name, webhook, profile: profile.webhooks, inbox: inboxAddress(warehouse), asks, hidden }];
}

/** Logs a note of the receiver; the name of the event is the error code. */
export function logNote(log: Logger, { level, event, error, ...rest }: ReceiverNote): void {
  log[level]({ ...rest, ...(error === undefined ? {} : { error: { code: event, message: error } }) }, event);
}
