import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pino from 'pino';
import { onTestFinished } from 'vitest';
import { openApp } from '../../src/server/app.ts';
import type { Clock } from '../../src/model/clock.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { loadSettings } from '../../src/config/load-settings.ts';
import type { SyncCommand } from '../../src/sync/plan.ts';
import type { RunReport } from '../../src/sync/report.ts';
import { type Command, type Ended, runCommand, startCommand } from '../support/command.ts';
import { differences } from '../support/compare-copy.ts';
import type { TestDatabase } from '../support/databases.ts';
import type { LiveService, TrueRecord } from './live-service.ts';
import { spawnSync } from 'node:child_process';

/** Where the scripts stand that install and start real services; beside the repository unless the variable says so. */
const SCRIPTS = process.env['CONTENT_SERVICES'] ?? path.join(import.meta.dirname, '../../../shared/services');

/** Where they keep what they installed. */
export const LAB = process.env['LAB'] ?? path.join(tmpdir(), 'content-services');

/** Null if real services can be started here, else why not. */
export function whyNoServices(): string | null {
  return existsSync(SCRIPTS) ? null : `no scripts for real services at ${SCRIPTS} (set CONTENT_SERVICES)`;
}

/** Starts a service, with its records; it goes on running, so that the next time it is there at once. */
export function startService(script: string): void {
  for (const step of ['start', 'seed']) {
    const { status, stderr } = spawnSync('bash', [path.join(SCRIPTS, `${script}.sh`), step], {
      encoding: 'utf8',
      env: { ...process.env, TMPDIR: '/tmp', LAB },
    });
    if (status !== 0) throw new Error(`${script}.sh ${step} ended with ${status}: ${stderr.slice(-500)}`);
  }
}

/** Reads what a service remembers of its keys. */
export function remembered(...file: string[]): string {
  return readFileSync(path.join(LAB, ...file), 'utf8').trim();
}

/** A real service and an empty warehouse, with the shipped profile between them. */
export interface LiveStage {
  config: string;
  /** Runs a command line of content-sync on it. */
  command(...args: string[]): Promise<Ended>;
  /** Starts one as a process. */
  start(...args: string[]): Command;
  /** Runs it inside this process, by any clock. */
  run(command: SyncCommand, clock?: Clock): Promise<RunReport>;
  /** Gives what stands in the warehouse to `look`, as a SQLite database on either. */
  read: ReturnType<typeof reader>;
  /** Everything in which the copy is not what the service holds of the resources, as sentences. */
  differences(truth: Readonly<Record<string, readonly TrueRecord[]>>): Promise<string[]>;
}

const SOURCE = 'live';

/** JSON is YAML. */
const write = (file: string, value: object): void => writeFileSync(file, JSON.stringify(value, null, 2));

/** Makes a folder with config and profile; `over` is laid over the profile, the source's settings and all settings. */
export async function liveStage(
  { baseUrl, auth, profile, resources = {} }: Pick<LiveService, 'baseUrl' | 'auth' | 'profile' | 'resources'>,
  database: TestDatabase,
  over: { profile?: object; source?: object; settings?: object } = {},
): Promise<LiveStage> {
  const folder = mkdtempSync(path.join(tmpdir(), 'content-sync-live-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const warehouse = await database.setting(folder);
  const config = path.join(folder, 'content-sync.yaml');
  write(path.join(folder, 'profile.yaml'), { extends: profile, resources, ...over.profile });
  write(config, {
    warehouse,
    log: { level: 'warn' },
    sources: { [SOURCE]: { base_url: baseUrl, auth, profile: './profile.yaml', ...over.source } },
    ...over.settings,
  });
  const address = warehouse.replace('{source}', SOURCE);
  return {
    config,
    start: (...args) => startCommand([...args, '--config', config], folder),
    command: (...args) => runCommand([...args, '--config', config], folder),
    run: (command, clock = systemClock) => runOnce(config, command, clock),
    read: reader(database, address),
    differences: async (truth) => {
      const found: string[] = [];
      for (const [resource, records] of Object.entries(truth)) {
        found.push(...(await database.read(address, (db) => resourceDifferences(db, resource, records))));
      }
      return found;
    },
  };
}

const ignore = (): void => undefined;

function reader(database: TestDatabase, address: string) {
  return <T>(look: Parameters<typeof database.read<T>>[1]): Promise<T> => database.read(address, look);
}

async function runOnce(config: string, command: SyncCommand, clock: Clock): Promise<RunReport> {
  const settings = loadSettings({ path: config, env: {}, cwd: path.dirname(config) });
  const [source] = Object.values(settings.sources);
  if (source === undefined) throw new Error('the config of a stage has one source');
  const app = await openApp({ source, clock, log: pino({ level: 'silent' }), secrets: [...settings.secrets] });
  try {
    const watcher = { started: ignore, page: ignore, ended: ignore };
    const { signal } = new AbortController();
    return await app.sync({ command, resources: source.resources, restart: false, signal, watcher });
  } finally {
    await app.close();
  }
}

function resourceDifferences(
  db: Parameters<typeof differences>[0],
  resource: string,
  records: readonly TrueRecord[],
): string[] {
  const list = () => records.map(({ id, record }) => ({ id, text: JSON.stringify(record) }));
  // A body is kept as the service wrote it, without what stands in its key besides.
  const bodies = !records.some(({ id }) => id.startsWith('['));
  return differences(db, { resources: () => [resource], list }, { bodies });
}
