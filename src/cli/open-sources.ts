import type { Command } from 'commander';
import type { Logger } from 'pino';
import { openApp, type App } from '../app.ts';
import { ConfigError } from '../model/errors.ts';
import { createLog } from '../observe/log.ts';
import { loadSettings } from '../settings/load-settings.ts';
import { LOG_LEVELS, type LogLevel, type SourceSettings } from '../settings/settings.ts';
import type { CliContext } from './context.ts';

/** Options of every command that works on configured sources. */
export interface SourceOptions {
  config?: string;
  source?: string;
  logLevel?: LogLevel;
}

/** Adds those options to a command. */
export function withSourceOptions(command: Command): Command {
  return command
    .option('-c, --config <file>', 'config file (else CONTENT_SYNC_CONFIG, else config/content-sync.yaml)')
    .option('-s, --source <name>', 'only this source of the config')
    .option('--log-level <level>', `one of ${LOG_LEVELS.join(', ')}`);
}

export interface OpenSource {
  app: App;
  log: Logger;
}

/** Runs `work` for each chosen source, one after the other, and closes it again whatever happens. */
export async function forEachSource<T>(
  context: CliContext,
  options: SourceOptions,
  work: (source: OpenSource) => Promise<T>,
): Promise<T[]> {
  const settings = loadSettings({ path: options.config, env: context.env, cwd: context.cwd });
  context.secrets.push(...settings.secrets);
  const level = logLevel(options.logLevel) ?? settings.log.level;
  const log = createLog({ level, secrets: context.secrets, destination: context.stderr });
  const results: T[] = [];
  for (const source of chosen(Object.values(settings.sources), options.source)) {
    const app = await openApp({ source, clock: context.clock, log, secrets: context.secrets });
    try {
      results.push(await work({ app, log: log.child({ source: source.name }) }));
    } finally {
      await app.close();
    }
    context.signal.throwIfAborted();
  }
  return results;
}

/** The names given on the command line, checked; all of the source's resources where none is given. */
export function chosenResources(source: SourceSettings, names: readonly string[]): string[] {
  const unknown = names.filter((name) => !source.resources.includes(name));
  if (unknown.length > 0) {
    throw new ConfigError('usage', `source ${source.name} has no resource ${unknown.join(', ')}`, {
      hint: `it has ${source.resources.join(', ')}`,
    });
  }
  return source.resources.filter((resource) => names.length === 0 || names.includes(resource));
}

function chosen(sources: readonly SourceSettings[], name: string | undefined): readonly SourceSettings[] {
  if (name === undefined) return sources;
  const found = sources.filter((source) => source.name === name);
  if (found.length > 0) return found;
  throw new ConfigError('usage', `the config has no source "${name}"`, {
    hint: `it has ${sources.map((source) => source.name).join(', ')}`,
  });
}

function logLevel(text: string | undefined): LogLevel | undefined {
  const level = LOG_LEVELS.find((known) => known === text);
  if (text !== undefined && level === undefined) {
    throw new ConfigError('usage', `--log-level ${text} is not known`, { hint: `use one of ${LOG_LEVELS.join(', ')}` });
  }
  return level;
}
