// `content-sync serve`: keeps all sources fresh until it is stopped, receives webhooks and serves the status page.
import { Command } from 'commander';
import type { Logger } from 'pino';
import { hiddenFields } from '../config/profile/record-fields.ts';
import type { ServeSettings, Settings, SourceSettings } from '../config/settings.ts';
import { inboxAddress } from '../database/databases.ts';
import { untilAborted } from '../model/waiting.ts';
import { createLog } from '../observe/log.ts';
import { createMetrics } from '../observe/metrics.ts';
import { isShared } from '../server/cluster/cluster.ts';
import { openControlSocket } from '../server/endpoints/control-socket.ts';
import { createAccessCheck, createWrongPasswordReporter } from '../server/endpoints/page-access.ts';
import { createPages } from '../server/endpoints/status-pages.ts';
import type { ReceivedSource, ReceiverNote } from '../server/receiver/setup.ts';
import { startReceiver } from '../server/receiver/start-receiver.ts';
import { serveSources } from '../server/serve-sources.ts';
import { serveWarnings, settingsWarnings } from '../server/serve-warnings.ts';
import { createVerifier } from '../server/signature/create-verifier.ts';
import { type CliContext, EXIT_CODES, type ExitCode, MAX_PORT, wholeNumber } from './command/context.ts';
import { readSettings, reportRefused, type SourceOptions, withSourceOptions } from './command/sources.ts';

type ServeOptions = SourceOptions & { host?: string; port?: number };

export function serveCommand(context: CliContext): Command {
  return withSourceOptions(new Command('serve'))
    .option('--host <address>', 'Address to listen on instead of serve.host')
    .option(
      '--port <number>',
      'Port to listen on instead of serve.port; 0 picks a free one',
      wholeNumber('--port', 0, MAX_PORT),
    )
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

/** A running service: its sources are kept fresh, and its pages and webhooks answered. */
export interface Serving {
  /** `http://127.0.0.1:8080`. */
  url: string;
  log: Logger;
  /** Finishes or rolls back work in progress, and closes everything. */
  stop(): Promise<void>;
}

/** Starts everything. Throws `ConfigError` if settings, address or inboxes cannot be used, before any request to a service. */
export async function startServing(context: CliContext, options: ServeOptions): Promise<Serving> {
  const { version, clock, secrets, stderr } = context;
  const settings = readServeSettings(context, options);
  await reportRefused(context, settings);
  const level = options.logLevel ?? settings.log.level;
  const { host = settings.serve.host, port: onPort = settings.serve.port } = options;
  const serve: ServeSettings = { ...settings.serve, host, port: onPort };
  const log = createLog({ level, secrets, destination: stderr });
  const warnings = [
    ...serveWarnings(serve, Object.values(settings.sources), clock.now()),
    ...settingsWarnings(settings),
  ];
  for (const { message, ...about } of warnings) log.warn(about, message);
  const metrics = createMetrics(version);
  const served = await serveSources({ settings, version, clock, log, secrets, metrics });
  const pages = createPages({
    ...served,
    access: createAccessCheck({ serve, clock, onWrongPassword: createWrongPasswordReporter(metrics, log, clock) }),
    failed: (error) => log.error({ error }, 'a page could not be made'),
  });
  const receiver = await startReceiver({
    serve,
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
  served.start(receiver.inbox);
  const { control: path } = settings;
  const socket = path === null ? null : await openControlSocket({ path, control: served.control, log });
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

/** Throws `ConfigError`, also if the receiver cannot use a source. */
function readServeSettings(context: CliContext, options: ServeOptions): Settings {
  const settings = readSettings(context, options);
  for (const { profile, webhook } of Object.values(settings.sources)) {
    if (webhook !== null) createVerifier(profile.webhooks.signature, webhook.secrets, webhook.public_url ?? null);
  }
  return settings;
}

function receivedSource({ name, webhook, profile, warehouse }: SourceSettings): ReceivedSource[] {
  if (webhook === null) return [];
  const stored = { inbox: inboxAddress(warehouse), isQueued: isShared({ warehouse }), hidden: hiddenFields(profile) };
  return [{ name, webhook, profile: profile.webhooks, ...stored }];
}

/** Logs a note of the receiver; the name of the event is the error code. */
export function logNote(log: Logger, { level, event, error, ...rest }: ReceiverNote): void {
  log[level]({ ...rest, ...(error === undefined ? {} : { error: { code: event, message: error } }) }, event);
}
