// What commands for configured sources share: their options, the loop over the sources, and the running `serve`.
import { existsSync } from 'node:fs';
import { userInfo } from 'node:os';
import { Command, Option } from 'commander';
import type { Logger } from 'pino';
import { settingsError } from '../../config/file/yaml-file.ts';
import { loadSettings } from '../../config/load-settings.ts';
import { type Settings, type SourceSettings, umaskOf } from '../../config/settings.ts';
import { ConfigError } from '../../model/errors.ts';
import { LOG_LEVELS, type LogLevel } from '../../model/vocabulary.ts';
import { createLog } from '../../observe/log.ts';
import { type App, type AppOptions, openApp } from '../../server/app.ts';
import type { ServeConnection } from '../../server/controls/serve-connection.ts';
import { type CliContext, EXIT_CODES, type ExitCode, exitCodeOfError, printError, worstExitCode } from './context.ts';

export interface SourceOptions {
  config?: string;
  source?: string;
  logLevel?: LogLevel;
  json?: true;
}

/** A command that reports on each source of the config. */
export function sourceCommand(name: string): Command {
  return withSourceOptions(new Command(name)).option('--json', 'Print one JSON object per source');
}

/** What a command does with each chosen source; `names` are the resources as the command line names them. */
type ResourceWork<Options> = (
  chosen: ChosenSource,
  options: Options,
  names: readonly string[],
) => Promise<ExitCode | void>;

/** A command that takes names of resources, and passes each chosen source to `work`, as `forEachSource` does. */
export function resourceCommand<Options extends SourceOptions>(
  name: string,
  context: CliContext,
  work: ResourceWork<Options>,
): Command {
  return sourceCommand(name)
    .argument('[resource...]', 'Only these resources of the profile')
    .action(async (names: string[], options: Options) => {
      await forEachSource(context, options, names, (chosen) => work(chosen, options, names));
    });
}

export function withSourceOptions(command: Command): Command {
  const logLevel = new Option(
    '--log-level <level>',
    'Level of the log on stderr; on a terminal it replaces the live lines',
  );
  return command
    .option('-c, --config <file>', 'Config file (default: CONTENT_SYNC_CONFIG or config/content-sync.yaml)')
    .option('-s, --source <name>', 'Only this source of the config')
    .addOption(logLevel.choices(LOG_LEVELS));
}

/** A source that the command line chooses. */
export interface ChosenSource {
  source: SourceSettings;
  /** The resources that the command line names, in the profile's order; all if it names none. */
  resources: readonly string[];
  log: Logger;
  /** Path of the control socket; null for none. */
  control: string | null;
}

/**
 * Runs `work` for each chosen source, one after the other, and sets the worst of their exit codes (`ok` for none) as that
 * of the process. A source that fails, or whose settings are invalid, is reported and does not affect the others. Throws
 * `ConfigError` before any request if the shared settings or the names on the command line are invalid.
 */
export async function forEachSource(
  context: CliContext,
  options: SourceOptions,
  names: readonly string[],
  work: (chosen: ChosenSource, settings: Settings) => Promise<ExitCode | void>,
): Promise<ExitCode> {
  const settings = readSettings(context, options);
  // On a terminal log lines would break up the live lines, so the log is off unless --log-level is given.
  const level = options.logLevel ?? (context.stderr.isTTY === true ? 'silent' : settings.log.level);
  const log = createLog({ level, secrets: context.secrets, destination: context.stderr });
  const sources = Object.values(settings.sources).map((source): ChosenSource => ({
    source,
    resources: chosenResources(source, names, settings),
    log: log.child({ source: source.name }),
    control: settings.control,
  }));
  const codes = await reportRefused(context, settings);
  // The error of the only source ends the command; with several, each error is printed with the name of its source.
  const isOnly = sources.length + codes.length === 1;
  for (const chosen of sources) {
    try {
      codes.push((await work(chosen, settings)) ?? EXIT_CODES.ok);
    } catch (error) {
      if (isOnly) throw error;
      await printError(context, error, chosen.source.name);
      codes.push(exitCodeOfError(error));
    }
    if (!context.signal.aborted) continue;
    codes.push(EXIT_CODES.interrupted);
    break;
  }
  const code = worstExitCode(codes);
  context.exit(code);
  return code;
}

/**
 * Reads the settings, and with `--source` only that source. Registers their secrets, so that none is printed, and sets the
 * umask for new files. Throws `ConfigError`.
 */
export function readSettings(context: CliContext, options: SourceOptions): Settings {
  const settings = loadSettings({ ...context, path: options.config, source: options.source });
  const names = Object.keys(settings.sources);
  if (options.source !== undefined && !names.includes(options.source)) {
    throw new ConfigError('usage', `the config has no source "${options.source}"`, {
      hint: `it has ${names.join(', ')}`,
    });
  }
  context.secrets.push(...settings.secrets);
  context.umask(umaskOf(settings.file_mode));
  return settings;
}

/** Prints the errors of sources whose settings are invalid; returns the exit code of each. */
export async function reportRefused(context: CliContext, { refused }: Settings): Promise<ExitCode[]> {
  for (const source of refused) await printError(context, settingsError(source), source.name);
  return refused.map(() => EXIT_CODES.usage);
}

function chosenResources(source: SourceSettings, names: readonly string[], { sources }: Settings): string[] {
  const unknown = names.filter((name) => !source.resources.includes(name));
  if (unknown.length > 0) {
    const sourceName = unknown.find((name) => Object.hasOwn(sources, name));
    throw new ConfigError('usage', `source ${source.name} has no resource "${unknown.join('", "')}"`, {
      hint: `it has ${source.resources.join(', ')}${sourceName === undefined ? '' : `; a whole source is named by --source ${sourceName}`}`,
    });
  }
  return source.resources.filter((resource) => names.length === 0 || names.includes(resource));
}

/** The log of a command that prints its own messages. */
export function silentLog({ stderr, secrets }: CliContext): Logger {
  return createLog({ level: 'silent', secrets, destination: stderr });
}

/** Runs `work` with what was opened, and closes it again whatever happens. */
export async function whileOpen<Opened extends { close(): Promise<void> }, T>(
  opened: Opened,
  work: (opened: Opened) => Promise<T>,
): Promise<T> {
  try {
    return await work(opened);
  } finally {
    await opened.close();
  }
}

/** What `withApp` needs to open a source. */
export interface AppSource {
  source: SourceSettings;
  log: Logger;
  retried?: NonNullable<AppOptions['retried']>;
}

/** Opens the source, runs `work` with it, and closes it again. */
export async function withApp<T>(
  { clock, secrets }: CliContext,
  { source, log, retried }: AppSource,
  work: (app: App) => Promise<T>,
): Promise<T> {
  return whileOpen(await openApp({ source, clock, log, secrets, ...(retried === undefined ? {} : { retried }) }), work);
}

/** The `serve` on this machine that keeps a source fresh; null if none runs. Throws `SyncError('serve_missing')`. */
export async function findServe({ control }: ChosenSource): Promise<ServeConnection | null> {
  if (control === null || !existsSync(control)) return null;
  // Loaded only if a `serve` may run.
  const { findSocket } = await import('../../server/controls/serve-connection.ts');
  return findSocket(control, caller());
}

/** The user and the process of this command, for the audit log of the `serve` that it controls. */
export function caller(): string {
  try {
    return `${userInfo().username}, pid ${process.pid}`;
  } catch {
    // The user of a container may have no name.
    return `pid ${process.pid}`;
  }
}
