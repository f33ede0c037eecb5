import { Command, InvalidArgumentError } from 'commander';
import type { Logger } from 'pino';
import { hiddenFields } from '../config/profile/record-fields.ts';
import type { ServeSettings, Settings, SourceSettings } from '../config/settings.ts';
import { inboxAddress } from '../database/databases.ts';
import { untilAborted } from '../model/waiting.ts';
import { createLog } from '../observe/log.ts';
import { createMetrics, type Metrics } from '../observe/metrics.ts';
import { isShared } from '../server/cluster/cluster.ts';
import type { Control } from '../server/controls/control-request.ts';
import { createControlDoor } from '../server/endpoints/control-door.ts';
import { openControlSocket } from '../server/endpoints/control-socket.ts';
import { createDoor, refusalNote } from '../server/endpoints/door.ts';
import { createPages, type Pages } from '../server/endpoints/pages.ts';
import { createRefusalLog, type ReceivedSource, type ReceiverNote } from '../server/receiver/setup.ts';
import { type Receiver, startReceiver } from '../server/receiver/start-receiver.ts';
import { createVerifier } from '../server/signature/create-verifier.ts';
import { type ServedSources, serveSources } from '../server/serve-sources.ts';
import { serveWarnings, settingsWarnings } from '../server/serve-warnings.ts';
import { type CliContext, EXIT_CODES, type ExitCode } from './command/context.ts';
import {
  readSettings,
  reloadedSettings,
  type SourceOptions,
  tellRefused,
  withSourceOptions,
} from './command/sources.ts';

type ServeOptions = SourceOptions & { host?: string; port?: number };

/** `content-sync serve`: keeps all sources fresh until it is stopped, and shows their status. */
export function serveCommand(context: CliContext): Command {
  return withSourceOptions(new Command('serve'))
    .option('--host <address>', 'Address to listen on instead of serve.host')
    .option('--port <number>', 'Port to listen on instead of serve.port; 0 picks a free one', port)
    .action(async (options: ServeOptions) => context.exit(await serve(context, options)));
}

async function serve(context: CliContext, options: ServeOptions): Promise<ExitCode> {
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
  const lost = { count: 0 };
  const log = createLog({ level: () => level, secrets, destination: stderr, lost });
  logWarnings(log, settings, options, clock.now());
  const metrics = createMetrics(version, () => lost.count);
  const control: Control = (...asked) => served.control(...asked);
  let current = resolveAddress(settings.serve, options);
  const served = await serveSources({
    settings,
    load: () => reloadedSettings(context, () => readServeSettings(context, options)),
    changed: (next) => {
      level = options.logLevel ?? next.log.level;
      logWarnings(log, next, options, clock.now());
      current = resolveAddress(next.serve, options);
    },
    version,
    clock,
    log,
    secrets,
    metrics,
  });
  const pages = createServePages({ context, log, served, control, metrics, serve: () => current });
  const receiver = await listen({ context, log, served, pages }, current, settings).catch(async (error: unknown) => {
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

/** Those that the command line names, proved to be usable by the receiver as well. Throws `ConfigError`. */
function readServeSettings(context: CliContext, options: ServeOptions): Settings {
  const settings = readSettings(context, options);
  for (const { profile, webhook } of Object.values(settings.sources)) {
    if (webhook !== null) createVerifier(profile.webhooks.signature, webhook.secrets, webhook.public_url ?? null);
  }
  return settings;
}

function resolveAddress(serve: ServeSettings, { host = serve.host, port = serve.port }: ServeOptions): ServeSettings {
  return { ...serve, host, port };
}

function logWarnings(log: Logger, settings: Settings, options: ServeOptions, now: number): void {
  const sources = Object.values(settings.sources);
  const warnings = [
    ...serveWarnings(resolveAddress(settings.serve, options), sources, now),
    ...settingsWarnings(settings),
  ];
  for (const { message, ...about } of warnings) log.warn(about, message);
}

interface PageParts {
  context: CliContext;
  log: Logger;
  served: ServedSources;
  control: Control;
  metrics: Metrics;
  /** The settings that hold now. */
  serve: () => ServeSettings;
}

function createServePages({ context: { clock }, log, served, control, metrics, serve }: PageParts): Pages {
  const reportRefusal = createRefusalLog((refusal) => log.warn(refusal, 'a form of the page was refused'), clock);
  const refused = (reason: string): void => reportRefusal(null, reason);
  const controls = createControlDoor({ control, serve, clock, refused });
  return createPages({
    snapshot: () => served.snapshot(),
    ready: () => served.ready(),
    details: (asked) => served.details(asked),
    tables: () => served.tables(),
    files: served.files,
    metrics: () => served.metrics(),
    door: createDoor({ serve, clock, refused: refusalNote(metrics, log) }),
    control,
    // Without a password anyone who can reach the page could control the process.
    controls: () => (serve().auth === undefined ? null : controls),
    failed: (error) => log.error({ error }, 'a page could not be made'),
  });
}

interface ServeListenParts {
  context: CliContext;
  log: Logger;
  served: ServedSources;
  pages: Pages;
}

function listen(parts: ServeListenParts, serve: ServeSettings, { sources }: Settings): Promise<Receiver> {
  const { context, log, served, pages } = parts;
  return startReceiver({
    serve,
    clock: context.clock,
    secrets: context.secrets,
    sources: Object.values(sources).flatMap(receivedSource),
    pages,
    onArrival: (source) => served.wake(source),
    onAnswer: (...answer) => served.answered(...answer),
    onNote: (note) => logNote(log, note),
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
