import { writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import path from 'node:path';
import { Readable } from 'node:stream';
import type { Command } from 'commander';
import { checkCommand } from '../../src/cli/check.ts';
import { type CliContext, printError } from '../../src/cli/command/context.ts';
import { backfillCommand, syncCommand } from '../../src/cli/sync.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { serve, type Stage } from '../http/stage.ts';
import { collector } from '../support/collector.ts';
import { tempFolder } from '../support/temp-warehouse.ts';

/** What a person reads of a command at a terminal, stdout and stderr together. */
interface Told {
  code: number;
  text: string;
}

/** A service that answers as the test says, a config that leads to it, and the commands as a person runs them. */
export interface OwnService extends Stage {
  check(...args: string[]): Promise<Told>;
  backfill(...args: string[]): Promise<Told>;
  sync(...args: string[]): Promise<Told>;
}

interface OwnServiceOptions {
  /** Fields of the resource `posts`, which has no single records unless they say so. */
  resource?: Record<string, unknown>;
  /** Fields of the profile itself. */
  profile?: Record<string, unknown>;
  /** Fields of the source. */
  source?: Record<string, unknown>;
  /** Makes the address of the service another one. */
  address?: (origin: string) => string;
}

const RESOURCE = { path: '/posts', page: { style: 'cursor', size: 2 }, updated: null };

/** Starts the service; all is gone when the test is over. */
export async function ownService(
  answer: (request: IncomingMessage, response: ServerResponse, nth: number) => void,
  options: OwnServiceOptions = {},
): Promise<OwnService> {
  const stage = await serve(answer);
  const { address = (origin: string) => origin } = options;
  const commands = commandsAt(address(stage.origin), options);
  return { ...stage, ...commands };
}

/** The commands of a config that leads to this address, whoever answers there. */
export function commandsAt(
  address: string,
  { resource, profile, source }: OwnServiceOptions = {},
): Pick<OwnService, 'check' | 'backfill' | 'sync'> {
  const folder = tempFolder();
  const config = path.join(folder, 'content-sync.yaml');
  const resources = { posts: { ...RESOURCE, ...resource } };
  const http = { attempts: 1 };
  // JSON is YAML.
  writeFileSync(path.join(folder, 'profile.yaml'), JSON.stringify({ http, resources, ...profile }));
  const auth = { type: 'api_key', key: 'a-key-of-this-test' };
  const blog = { base_url: address, auth, profile: './profile.yaml', ...source };
  writeFileSync(config, JSON.stringify({ warehouse: `sqlite:${folder}/{source}.db`, sources: { blog } }));
  const run = (make: (context: CliContext) => Command) => (args: readonly string[]) =>
    atTerminal(make, [...args, '--config', config], folder);
  return {
    check: (...args) => run(checkCommand)(args),
    backfill: (...args) => run(backfillCommand)(args),
    sync: (...args) => run(syncCommand)(args),
  };
}

async function atTerminal(make: (context: CliContext) => Command, args: readonly string[], cwd: string): Promise<Told> {
  const screen = Object.assign(collector(), { isTTY: true, columns: 200 });
  const live = collector();
  const { signal } = new AbortController();
  let code = 0;
  const exit = (chosen: number): void => {
    code = chosen;
  };
  const secrets: string[] = [];
  const context = {
    version: '0.0.0',
    env: {},
    cwd,
    stdin: Readable.from([]),
    stdout: screen,
    stderr: live,
    signal,
    clock: systemClock,
    secrets,
    umask: () => undefined,
    json: args.includes('--json'),
    exit,
  };
  try {
    await make(context)
      .exitOverride()
      .parseAsync([...args, '--log-level', 'silent'], { from: 'user' });
  } catch (error) {
    await printError(context, error);
    code = 2;
  }
  return { code, text: screen.text() + live.text() };
}
