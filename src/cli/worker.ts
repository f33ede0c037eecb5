import { Command, InvalidArgumentError } from 'commander';
import { ConfigError } from '../model/errors.ts';
import { createLog, setLogLevel } from '../observe/log.ts';
import { createReloader } from '../serve/reload/reloader.ts';
import type { SettingsChange } from '../serve/reload/settings-change.ts';
import type { Settings, SourceSettings } from '../settings/settings.ts';
import { untilAborted } from '../model/waiting.ts';
import type { CliContext } from './command/context.ts';
import { EXIT_CODES, type ExitCode } from './command/exit-code.ts';
import { logWalks } from '../serve/source-watcher.ts';
import {
  chosenSettings,
  reloadedSettings,
  tellRefused,
  withSourceOptions,
  type SourceOptions,
} from './command/sources.ts';
import { exposedFiles } from '../serve/serve-warnings.ts';
import { joinCluster, isShared } from '../serve/cluster/join-cluster.ts';
import type { ClusterSource } from '../serve/cluster/open-apps.ts';

type WorkerOptions = SourceOptions & { atOnce?: number };

/** `content-sync worker`: does the work that a `serve` on the same Postgres asks for, together with any number of others. */
export function workerCommand(context: CliContext): Command {
  return withSourceOptions(new Command('worker'))
    .option('--at-once <number>', 'walks under way at once; 8 where absent', walks)
    .action(async (options: WorkerOptions) => context.exit(await work(context, options)));
}

async function work(context: CliContext, options: WorkerOptions): Promise<ExitCode> {
  const { clock, secrets, signal } = context;
  const settings = sharedSettings(context, options);
  await tellRefused(context, settings, undefined);
  const log = createLog({ level: options.logLevel ?? settings.log.level, secrets, destination: context.stderr });
  for (const { message, hint } of exposedFiles(settings)) log.warn({ hint }, message);
  const known = (source: SourceSettings): ClusterSource => {
    const own = log.child({ source: source.name });
    const watcher = { ...logWalks(own, clock, 'info'), attempted: () => undefined, settled: () => undefined };
    return { source, log: own, watcher };
  };
  const { atOnce } = options;
  const sources = Object.values(settings.sources).map(known);
  const cluster = joinCluster({ sources, clock, log, secrets, ...(atOnce === undefined ? {} : { atOnce }) });
  await cluster.ready();
  const load = (): Settings => reloadedSettings(context, () => sharedSettings(context, options));
  const apply = async ({ added, removed, changed }: SettingsChange, { log: { level } }: Settings): Promise<void> => {
    setLogLevel(log, options.logLevel ?? level);
    const altered = changed.filter(({ isWork }) => isWork);
    await Promise.all([...removed, ...altered.map(({ old }) => old)].map((source) => cluster.leave(source)));
    for (const source of [...added, ...altered.map((each) => each.source)]) cluster.join(known(source));
    await cluster.closeUnused();
  };
  const reloader = createReloader({ settings, load, apply, clock, log });
  context.reloads?.(() => void reloader.reload({ via: 'signal', by: null }));
  log.info({ sources: sources.length }, 'working');
  await untilAborted(signal);
  log.info('stopping');
  await cluster.stop();
  return EXIT_CODES.ok;
}

/** Throws `ConfigError` if a source is not kept on a database that many processes share. */
function sharedSettings(context: CliContext, options: WorkerOptions): Settings {
  const settings = chosenSettings(context, options);
  refuseUnshared(Object.values(settings.sources));
  return settings;
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
