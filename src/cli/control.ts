// `content-sync pause`, `resume`, `retry` and `health`: control or check a running `serve`.
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { Argument, Command } from 'commander';
import { request } from 'undici';
import { firstPage } from '../checks/listing-scan.ts';
import { openWarehouse } from '../database/databases.ts';
import { pauseResources, readPauses, resumeResources } from '../database/state/server-state.ts';
import { newMeter } from '../http/client.ts';
import { messageOf, SyncError } from '../model/errors.ts';
import { toSyncError } from '../server/controls/control-request.ts';
import { withShortTimeouts } from './check.ts';
import { type CliContext, EXIT_CODES, type ExitCode, print, printReport } from './command/context.ts';
import {
  type ChosenSource,
  forEachSource,
  readSettings,
  sourceCommand,
  type SourceOptions,
  whileOpen,
  withApp,
  withSourceOptions,
} from './command/sources.ts';
import { caller, findServe } from './command/watch-run.ts';

type ControlOptions = SourceOptions & { now?: true };
/** `content-sync pause`: stops work on resources until they are resumed. */
export function pauseCommand(context: CliContext): Command {
  return resourceCommand(context, 'pause', async ({ source, resources }) => {
    const what = `${source.name} ${resources.join(', ')}`;
    return whileOpen(await openWarehouse(source.warehouse, context.clock), async (warehouse) => {
      const pause = { at: context.clock.now(), by: `${caller()} (command)` };
      await warehouse.apply(pauseResources(warehouse.own, resources, pause));
      return [`${what}: paused; a running serve stops within seconds, and keeps webhooks until it is resumed`];
    });
  });
}

/** `content-sync resume`: ends a pause; deliveries stored meanwhile are processed. */
export function resumeCommand(context: CliContext): Command {
  return resourceCommand(context, 'resume', async ({ source, resources }) => {
    return whileOpen(await openWarehouse(source.warehouse, context.clock), async (warehouse) => {
      const pauses = await readPauses(warehouse.own);
      const paused = resources.filter((resource) => pauses.has(resource));
      if (paused.length === 0) return [`${source.name}: nothing of it was paused`];
      await warehouse.apply(resumeResources(warehouse.own, paused));
      return [`${source.name}: resumed (${paused.join(', ')}); a running serve continues within seconds`];
    });
  });
}

/** `content-sync retry`: has the running `serve` try again at once, after a fix. */
export function retryCommand(context: CliContext): Command {
  return resourceCommand(context, 'retry', (chosen, names, options) => retry(context, chosen, names, options)).option(
    '--now',
    'Ignore the wait that the service requested, and send one request; works without `serve` too',
  );
}

/** A command for resources of a source; `work` returns the lines to print. */
function resourceCommand(
  context: CliContext,
  name: string,
  work: (chosen: ChosenSource, names: readonly string[], options: ControlOptions) => Promise<string[]>,
): Command {
  return sourceCommand(name)
    .argument('[resource...]', 'Only these resources of the profile')
    .action(async (names: string[], options: ControlOptions) => {
      await forEachSource(context, options, names, async (chosen) => {
        const messages = await work(chosen, names, options);
        printReport(context, { source: chosen.source.name, done: true, messages }, messages.join('\n'));
      });
    });
}

/** Sends one request for the whole source, or one per named resource. */
async function retry(
  context: CliContext,
  chosen: ChosenSource,
  names: readonly string[],
  { now }: ControlOptions,
): Promise<string[]> {
  const { name: source } = chosen.source;
  const serve = await findServe(chosen);
  const targets = names.length === 0 ? [{ source }] : chosen.resources.map((resource) => ({ source, resource }));
  const messages: string[] = [];
  for (const target of targets) {
    if (serve === null) break;
    const request = { action: 'retry' as const, ...target, ...(now && { now }) };
    const { answer } = await serve.send(request, context.signal);
    // A `serve` that does not have the source leaves the request to this process.
    if (answer.code === 'unknown_source') continue;
    if (!answer.done) throw toSyncError(answer);
    messages.push(answer.message);
  }
  if (messages.length > 0) return messages;
  if (now === true) return [await requestNow(context, chosen)];
  throw new SyncError('serve_missing', 'no serve runs that could try again', {
    recovery: 'stop',
    hint: 'start it: content-sync serve; or see `control` in the settings, which must be the same for both',
  });
}

/** Deletes the stored wait, and sends one request to see whether the service responds. Throws if it does not. */
async function requestNow(context: CliContext, { source, resources, log }: ChosenSource): Promise<string> {
  const once = { ...source.profile, http: { ...source.profile.http, attempts: 1 } };
  return withApp(context, { source: withShortTimeouts({ ...source, profile: once }), log }, async (app) => {
    await app.retry(true);
    const { client, listing } = app;
    const { clock, signal } = context;
    const profiles = resources.flatMap((resource) => app.source.profile.resources[resource] ?? []);
    const profile = profiles.find(({ partitions, windows }) => partitions === null && windows === null);
    if (profile === undefined) return `${source.name}: the wait is forgotten; run content-sync sync`;
    await firstPage({ profile, listing, client, clock, signal, meter: newMeter() }, 'incremental', {});
    return `${source.name}: the wait is forgotten, and the service answers; run content-sync sync`;
  });
}

type HealthOptions = SourceOptions & { port?: string };
type ProcessName = 'serve' | 'worker';

const REQUEST_TIMEOUT_MS = 4_000;

/** `content-sync health`: whether the `serve` or `worker` of this config lives on this machine, for container and init systems. */
export function healthCommand(context: CliContext): Command {
  return withSourceOptions(new Command('health'))
    .addArgument(
      new Argument('[process]', 'Process to ask (default: the first that responds)').choices(['serve', 'worker']),
    )
    .option('--port <number>', 'Port, if it was not started with that of the config')
    .action(async (processName: ProcessName | undefined, options: HealthOptions) => {
      context.exit(await health(context, processName, options));
    });
}

async function health(context: CliContext, named: ProcessName | undefined, options: HealthOptions): Promise<ExitCode> {
  const main = mainProcessArguments();
  const running = named ?? (main?.[0] === 'serve' || main?.[0] === 'worker' ? main[0] : undefined);
  if (main !== null && running === undefined) {
    print(context, `this container runs ${main[0] ?? 'nothing'}, which is not checked`);
    return EXIT_CODES.ok;
  }
  return checkListeners(context, running, { ...findOptions(main ?? []), ...options });
}

/** The arguments of content-sync if it is the main process of this container; null elsewhere. */
function mainProcessArguments(): string[] | null {
  try {
    const words = readFileSync('/proc/1/cmdline', 'utf8').split('\0').slice(0, -1);
    const script = words.indexOf(process.argv[1] ?? '');
    return script < 0 ? null : words.slice(script + 1);
  } catch {
    return null;
  }
}

/** The options of that process which say where it listens. */
function findOptions(args: readonly string[]): HealthOptions {
  const { values } = parseArgs({
    args: [...args],
    strict: false,
    options: { port: { type: 'string' }, config: { type: 'string', short: 'c' } },
  });
  const { port, config } = values;
  return { ...(typeof port === 'string' && { port }), ...(typeof config === 'string' && { config }) };
}

async function checkListeners(
  context: CliContext,
  processName: ProcessName | undefined,
  options: HealthOptions,
): Promise<ExitCode> {
  const settings = readSettings(context, options);
  const listeners = processName === undefined ? [settings.serve, settings.worker] : [settings[processName]];
  const urls = listeners.flatMap((listener) => urlOf(listener, options.port) ?? []);
  const answers = await Promise.all(urls.map(requestHealth));
  const healthy = answers.find(({ isHealthy }) => isHealthy);
  for (const { url, result } of healthy === undefined ? answers : [healthy]) print(context, `${url}: ${result}`);
  if (answers.length === 0) print(context, 'no port is configured');
  return healthy === undefined ? EXIT_CODES.failed : EXIT_CODES.ok;
}

/** The health URL of an address; one that listens everywhere is requested on this machine. */
function urlOf(
  { host, port: set }: { host: string; port: number | null },
  port = set === null ? undefined : String(set),
): string | null {
  if (port === undefined) return null;
  const named = ['0.0.0.0', '::', ''].includes(host) ? '127.0.0.1' : host;
  return `http://${named.includes(':') ? `[${named}]` : named}:${port}/healthz`;
}

async function requestHealth(url: string): Promise<{ url: string; isHealthy: boolean; result: string }> {
  try {
    const { statusCode, body } = await request(url, { signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS) });
    await body.dump();
    return { url, isHealthy: statusCode === 200, result: `responds ${statusCode}` };
  } catch (error) {
    return { url, isHealthy: false, result: `does not respond: ${messageOf(error)}` };
  }
}
