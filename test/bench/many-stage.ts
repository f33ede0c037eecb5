import { fork, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Client } from 'pg';
import { systemClock } from '../../src/observe/system-clock.ts';
import type { SandboxOptions } from '../sandbox/service/sandbox.ts';
import { WorkQueue } from '../../src/serve/work-items/work-queue.ts';
import { openWarehouse } from '../../src/warehouse/databases.ts';
import type { PostgresServer } from '../support/postgres-server.ts';

/** Records on a page. */
export const PAGE = 20;
const MAIN = path.join(import.meta.dirname, '../../src/main.ts');

/** What one account has seen. */
export interface AccountFigures {
  requests: number;
  /** Answers of 429. */
  refused: number;
  /** Pages that were answered before. */
  twice: number;
}

export interface Sandboxes {
  accounts: readonly { url: string; apiKey: string }[];
  ask<T>(what: 'clear' | 'figures'): Promise<T>;
  close(): void;
}

export async function startSandboxes(settings: SandboxOptions & { accounts: number }): Promise<Sandboxes> {
  const child = fork(path.join(import.meta.dirname, 'many-sandboxes.ts'), [JSON.stringify(settings)]);
  const heard = async <T>(): Promise<T> => {
    const [answer]: T[] = await once(child, 'message');
    if (answer === undefined) throw new Error('the sandboxes do not answer');
    return answer;
  };
  const accounts = await heard<Sandboxes['accounts']>();
  const ask = <T>(what: string): Promise<T> => {
    child.send(what);
    return heard<T>();
  };
  return { accounts, ask, close: () => child.disconnect() };
}

export interface Stage {
  address(source: string): string;
  queue: WorkQueue;
  startWorkers(count: number, atOnce: number): Promise<ChildProcess[]>;
}

/** A database of its own with all accounts as sources, and what is to be done in its queue. */
export async function staged(
  server: PostgresServer,
  sandboxes: Sandboxes,
  resources: string[],
  use: (stage: Stage) => Promise<void>,
) {
  const folder = mkdtempSync(path.join(tmpdir(), 'content-sync-many-'));
  const name = `many_${Date.now()}`;
  const admin = new Client({ connectionString: server.url() });
  await admin.connect();
  await admin.query(`CREATE DATABASE ${name}`);
  const config = path.join(folder, 'content-sync.yaml');
  writeConfig(folder, config, `${server.url(name)}?schema={source}`, sandboxes, resources);
  const queue = new WorkQueue({ address: server.url(name), clock: systemClock, failed: tell });
  const running: ChildProcess[] = [];
  try {
    await queue.opened;
    // Made beforehand: it is the walks that are measured.
    for (let n = 0; n < sandboxes.accounts.length; n += 1) {
      const warehouse = await openWarehouse(`${server.url(name)}?schema=${nameOf(n)}`, systemClock);
      await warehouse.close();
    }
    await use({
      address: (source) => `${server.url(name)}?schema=${source}`,
      queue,
      startWorkers: async (count, atOnce) => {
        for (let n = 0; n < count; n += 1) {
          const args = [
            MAIN,
            'worker',
            '--config',
            config,
            '--at-once',
            String(atOnce),
            '--port',
            '0',
            '--log-level',
            'error',
          ];
          running.push(spawn(process.execPath, args, { stdio: ['ignore', 'inherit', 'inherit'] }));
        }
        await Promise.all(running.map((each) => once(each, 'spawn')));
        return running;
      },
    });
  } finally {
    await Promise.all(running.map(ended));
    await queue.close();
    await admin.query(`DROP DATABASE ${name} WITH (FORCE)`);
    await admin.end();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const gone = once(child, 'exit');
  child.kill('SIGTERM');
  await gone;
}

function writeConfig(
  folder: string,
  file: string,
  warehouse: string,
  { accounts }: Sandboxes,
  resources: string[],
): void {
  const page = { size: PAGE };
  const profile = {
    extends: 'content-service',
    resources: { content: { page }, images: { page }, analytics: { page } },
  };
  writeFileSync(path.join(folder, 'profile.yaml'), JSON.stringify(profile));
  const sources = accounts.map(({ url, apiKey }, n) => [
    nameOf(n),
    {
      base_url: url,
      auth: { type: 'api_key', key: apiKey },
      profile: './profile.yaml',
      rate: { share: 1 },
      resources,
      webhook: { secrets: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'] },
    },
  ]);
  writeFileSync(file, JSON.stringify({ warehouse, sources: Object.fromEntries(sources) }));
}

export const tell = (error: unknown): void => console.error(error);
export const nameOf = (account: number): string => `account_${account}`;
export const sum = (numbers: readonly number[]): number => numbers.reduce((all, each) => all + each, 0);
