import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import { exitCodeOfError } from '../../../src/cli/command/context.ts';
import { backfillCommand, syncCommand } from '../../../src/cli/sync.ts';
import { SyncError } from '../../../src/model/errors.ts';
import { runInProcess } from '../../cli/in-process.ts';
import type { TestDatabase } from '../databases.ts';
import { tempFolder } from '../temp-warehouse.ts';
import { RESOURCE } from './oracle.ts';
import { WorldClock } from './world-clock.ts';

const COMMANDS = { backfill: backfillCommand, sync: syncCommand } as const;
export type Command = keyof typeof COMMANDS;

/** A run of the command line and how it ended. */
export interface Run {
  command: Command;
  exitCode: number;
  status: string;
  mode: 'full' | 'incremental';
  /** Codes of its error and its warnings. */
  said: readonly string[];
  /** Requests for pages and for single records. */
  listing: number;
  item: number;
  /** Changes in the service meanwhile. */
  moves: number;
}

interface Report {
  resources?: readonly {
    resource: string;
    status: string;
    mode: Run['mode'];
    error?: { code: string; message: string };
    warnings?: readonly { code: string; message: string }[];
  }[];
}

/** A service as whoever runs against it needs it. */
interface Watched {
  /** Requests since it was last set to zero. */
  asked: { listing: number; item: number };
  /** Told of every request before it is answered. */
  onRequest: () => void;
  readonly log: string[];
  now(): number;
}

/** Runs the command line within this process, against one service. */
export class Runner {
  readonly #folder: string;
  readonly #clock: WorldClock;
  readonly #service: Watched;

  constructor(folder: string, clock: WorldClock, service: Watched) {
    this.#folder = folder;
    this.#clock = clock;
    this.#service = service;
  }

  /** `stopAfter`: requests after which somebody stops it. */
  async run(command: Command, stopAfter: number | null): Promise<Omit<Run, 'moves'>> {
    const service = this.#service;
    const stop = new AbortController();
    const world = { clock: this.#clock, signal: stop.signal };
    service.asked = { listing: 0, item: 0 };
    service.log.push(`${new Date(service.now()).toISOString()} ${command}`);
    service.onRequest = () => {
      const { listing, item } = service.asked;
      if (stopAfter !== null && listing + item >= stopAfter) {
        stop.abort(new SyncError('interrupted', 'stopped by the story', { recovery: 'stop' }));
      }
    };
    const ended = await runInProcess(
      COMMANDS[command],
      ['--json', '--config', 'content-sync.yaml'],
      this.#folder,
      world,
    ).catch((error: unknown) => ({
      code: exitCodeOfError(error),
      stdout: '',
      stderr: String(error),
    }));
    const report: Report = ended.stdout === '' ? {} : JSON.parse(ended.stdout);
    const part = report.resources?.find(({ resource }) => resource === RESOURCE);
    const told = [...(part?.error === undefined ? [] : [part.error]), ...(part?.warnings ?? [])];
    const said = part === undefined ? [ended.stderr] : told.map(({ code, message }) => `${code}: ${message}`);
    const status = ended.code === 0 ? 'ok' : (part?.status ?? 'failed');
    return { command, exitCode: ended.code, status, mode: part?.mode ?? 'full', said, ...service.asked };
  }
}

const START = '2026-03-02T06:00:00.000Z';
/** On Postgres a process looks after its budget again and again while it waits: that must not make the time fly. */
const HURRY = { sqlite: 0, postgres: 50 } as const;

export function storyClock({ name }: TestDatabase): WorldClock {
  return new WorldClock(START, HURRY[name]);
}

/** An empty copy of a service, with the profile and the source's settings that lead to it; gone with the test. */
export async function emptyCopy(
  database: TestDatabase,
  clock: WorldClock,
  service: Watched,
  { profile, source }: { profile: object; source: object },
): Promise<{ runner: Runner; config: string; address: string }> {
  const folder = tempFolder();
  const { setting: warehouse, close } = await database.open(folder);
  onTestFinished(close);
  const [config, blog] = [path.join(folder, 'content-sync.yaml'), { profile: './profile.yaml', ...source }];
  // JSON is YAML.
  writeFileSync(path.join(folder, 'profile.yaml'), JSON.stringify(profile));
  writeFileSync(config, JSON.stringify({ warehouse, log: { level: 'silent' }, sources: { blog } }));
  return { runner: new Runner(folder, clock, service), config, address: warehouse.replace('{source}', 'blog') };
}
