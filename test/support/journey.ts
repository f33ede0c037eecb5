import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type Database from 'better-sqlite3';
import pino from 'pino';
import { onTestFinished } from 'vitest';
import { type App, type AppOptions, openApp } from '../../src/server/app.ts';
import type { Clock } from '../../src/model/clock.ts';
import { SyncError } from '../../src/model/errors.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { loadSettings } from '../../src/config/load-settings.ts';
import type { Settings } from '../../src/config/settings.ts';
import type { SyncCommand } from '../../src/sync/plan.ts';
import type { RunReport, RunWatcher } from '../../src/sync/report.ts';
import { type Sandbox, type SandboxOptions, startSandbox } from '../sandbox/service/sandbox.ts';
import { type Command, type Ended, runCommand, startCommand } from './command.ts';
import { type Looks, looksOf, preparedSetting, type TestDatabase, USUAL } from './databases.ts';

/** Fields of a profile, laid over `content-service`; what is left out stays. */
type ProfileFields = Record<string, unknown>;

export interface JourneyOptions {
  /** Of the warehouse; the usual one where absent. */
  database?: TestDatabase;
  /** True for a test that sees how the warehouse comes to be; else our tables are there. */
  isNew?: boolean;
  sandbox?: SandboxOptions;
  /** The profile to start from, by name. */
  base?: string;
  profile?: ProfileFields;
  /** Fields of the source's settings besides address, credential and profile. */
  source?: Record<string, unknown>;
  /** Fields of the settings beside the sources. */
  settings?: Record<string, unknown>;
}

/** A service, a configuration and an empty warehouse in a folder of their own; all gone when the test is over. */
export interface Journey extends Looks {
  folder: string;
  sandbox: Sandbox;
  config: string;
  /** Path of the warehouse on SQLite; it is there after the first run. */
  file: string;
  /** Address of the warehouse, on either database. */
  address: string;
  /** Lays other fields over the profile; holds from the next run on. */
  setProfile(profile: ProfileFields): void;
  /** Lays other fields over those of the source's settings; holds from the next run on. */
  setSource(fields: Record<string, unknown>): void;
  /** Starts the real command line as a process; `--config` is added. */
  start(...args: string[]): Command;
  /** The same inside this process, to its end: much faster, where a test is not about the process. */
  command(...args: string[]): Promise<Ended>;
  /** Starts it, and waits until the service was asked for so many pages. Throws where it ends before. */
  startUntil(pages: number, ...args: string[]): Promise<Command>;
  /** The same run inside this process: much faster, for loops. */
  run(command: SyncCommand, options?: RunChoices): Promise<RunReport>;
  /** Opens the app as `run` does; the caller closes it. `attempted` hears of its requests. */
  open(clock?: Clock, attempted?: AppOptions['attempted']): Promise<App>;
  /** Gives what stands in the warehouse to `look`, as a SQLite database on either; without tables before the first run. */
  read<T>(look: (db: Database.Database) => T): Promise<T>;
  /** Runs a statement on the warehouse, to age or damage it; a value for each `?`. */
  write(statement: string, ...values: unknown[]): Promise<number>;
}

export interface RunChoices {
  resources?: readonly string[];
  restart?: boolean;
  signal?: AbortSignal;
  clock?: Clock;
  watcher?: Partial<RunWatcher>;
  /** Stops the run as a signal would, once so many pages are stored. */
  stopAfter?: number;
  /** Hears of the requests. */
  attempted?: AppOptions['attempted'];
  /** True to fetch files too, as the command line does. */
  files?: boolean;
}

const SOURCE = 'blog';
const NOTHING_TO_SEE: RunWatcher = { started: () => undefined, page: () => undefined, ended: () => undefined };
/** What a stopped run ends with. */
export const STOPPED = new SyncError('interrupted', 'stopped by the test', { recovery: 'stop' });

/** Sets the stage: a sandbox in this process, and a config and profile that lead to it. */
export async function journey(options: JourneyOptions = {}): Promise<Journey> {
  const sandbox = await startSandbox(options.sandbox);
  const folder = mkdtempSync(path.join(tmpdir(), 'content-sync-journey-'));
  onTestFinished(async () => {
    await sandbox.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const database = options.database ?? USUAL;
  const warehouse = await (options.isNew === true ? database.setting(folder) : preparedSetting(database, folder));
  const address = warehouse.replace('{source}', SOURCE);
  const [config, file] = [path.join(folder, 'content-sync.yaml'), path.join(folder, `${SOURCE}.db`)];
  const setProfile = (profile: ProfileFields): void =>
    writeYaml(path.join(folder, 'profile.yaml'), { extends: options.base ?? 'content-service', ...profile });
  setProfile(options.profile ?? {});
  const setSource = (fields: Record<string, unknown>): void =>
    writeYaml(config, {
      ...configFor(warehouse, sandbox, { ...options.source, ...fields }),
      ...options.settings,
    });
  setSource({});

  const start = (...args: string[]): Command => startCommand([...args, '--config', config], folder);
  const open: Journey['open'] = (clock = systemClock, attempted) => openFrom(config, clock, attempted);
  return {
    folder,
    sandbox,
    config,
    file,
    address,
    setProfile,
    setSource,
    open,
    start,
    command: (...args) => runCommand([...args, '--config', config], folder),
    startUntil: async (pages, ...args) => {
      const command = start(...args);
      await asked(sandbox, pages, command);
      return command;
    },
    run: async (command, choices = {}) => {
      const app = await open(choices.clock, choices.attempted);
      try {
        return await app.sync(requestFor(app, command, choices));
      } finally {
        await app.close();
      }
    },
    read: (look) => database.read(address, look),
    ...looksOf((look) => database.read(address, look)),
    write: (statement, ...values) => database.write(address, statement, ...values),
  };
}

async function asked({ requests }: Sandbox, pages: number, command: Command): Promise<void> {
  const ended = command.ended.then(() => true);
  while (requests.total < pages) {
    if (await Promise.race([delay(1, false), ended])) throw new Error((await command.ended).stderr);
  }
}

function configFor(warehouse: string, sandbox: Sandbox, source: Record<string, unknown>): object {
  const auth = { type: 'api_key', key: sandbox.apiKey };
  const settings = { base_url: sandbox.url, auth, profile: './profile.yaml', ...source };
  return { warehouse, log: { level: 'warn' }, sources: { [SOURCE]: settings } };
}

/** JSON is YAML. */
function writeYaml(file: string, value: object): void {
  writeFileSync(file, JSON.stringify(value, null, 2));
}

/** Opens the one source of a config. */
export function openFrom(
  config: string,
  clock: Clock,
  attempted: AppOptions['attempted'] = () => undefined,
): Promise<App> {
  const settings = readSettings(config);
  const [source] = Object.values(settings.sources);
  if (source === undefined) throw new Error('the config of a journey has one source');
  const log = pino({ level: 'silent' });
  return openApp({ source, clock, log, secrets: [...settings.secrets], attempted });
}

/** What an app is asked for by a run. */
export function requestFor(app: App, command: SyncCommand, choices: RunChoices = {}): Parameters<App['sync']>[0] {
  const { resources = app.source.resources, restart = false, files = false, stopAfter } = choices;
  const watcher = { ...NOTHING_TO_SEE, ...choices.watcher };
  if (stopAfter === undefined) {
    return { command, resources, restart, signal: choices.signal ?? new AbortController().signal, watcher, files };
  }
  const stop = new AbortController();
  let pages = 0;
  const page = (): void => void ((pages += 1) === stopAfter && stop.abort(STOPPED));
  return { command, resources, restart, signal: stop.signal, watcher: { ...watcher, page }, files };
}

/** What was read last of a config file, and the texts that it was read from. */
const known = new Map<string, { texts: string; settings: Settings }>();
const MOST_KNOWN = 20;

/**
 * The settings of a config file, as a command reads them. Where no text has changed since, they are those of the reading
 * before, which nobody can change: to read and check them takes as long as most of what a test does with them.
 */
function readSettings(config: string): Settings {
  const texts = textsBeside(config);
  const before = known.get(config);
  if (texts !== null && before?.texts === texts) return before.settings;
  const settings = loadSettings({ path: config, env: {}, cwd: path.dirname(config) });
  if (known.size >= MOST_KNOWN) known.clear();
  if (texts !== null) known.set(config, { texts, settings });
  return settings;
}

/** The config and all profiles that may belong to it; null where other files do as well. */
function textsBeside(config: string): string | null {
  const folder = path.dirname(config);
  const files = readdirSync(folder).filter((name) => name.endsWith('.yaml'));
  const texts = files.toSorted().map((name) => `${name}\n${readFileSync(path.join(folder, name), 'utf8')}`);
  return texts.some((text) => text.includes('${')) ? null : texts.join('\n');
}
