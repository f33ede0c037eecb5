import { fork, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Client } from 'pg';
import { systemClock } from '../../src/observe/system-clock.ts';
import type { SandboxOptions } from '../../src/sandbox/sandbox.ts';
import { askDrain } from '../../src/serve/work-items/work-items.ts';
import { WorkQueue } from '../../src/serve/work-items/work-queue.ts';
import { openInbox, openWarehouse } from '../../src/warehouse/databases.ts';
import { factorText, ONE, settled, type OneWalk } from './many-on-one.ts';
import { startPostgres, type PostgresServer } from '../support/postgres-server.ts';

/**
 * `node test/bench/many.ts`: 1, 2 and 4 workers on 40 accounts with a limit each; then 4 workers on one account. The
 * total is to rise until the limits are used, no account is to refuse a request, and no page is to be read twice.
 */
const { values: options } = parseArgs({
  options: {
    accounts: { type: 'string', default: '40' },
    rate: { type: 'string', default: '4' },
    seconds: { type: 'string', default: '20' },
    workers: { type: 'string', default: '1,2,4' },
    /** `resource`: only that of many workers on one resource. */
    only: { type: 'string', default: '' },
  },
});
const ACCOUNTS = Number(options.accounts);
const RATE = Number(options.rate);
const SECONDS = Number(options.seconds);
/** After all that are to work have begun, until what was saved up of the limits is used. */
const WARM_UP_MS = 8_000;
const LONGEST_START_MS = 90_000;
const PAGE = 20;
const DELIVERIES = 300;
const MAIN = path.join(import.meta.dirname, '../../src/main.ts');

/** What one account has seen. */
export interface AccountFigures {
  requests: number;
  /** Answers of 429. */
  refused: number;
  /** Pages that were answered before. */
  twice: number;
}

interface Sandboxes {
  accounts: readonly { url: string; apiKey: string }[];
  ask<T>(what: 'clear' | 'figures'): Promise<T>;
  close(): void;
}

async function startSandboxes(settings: SandboxOptions & { accounts: number }): Promise<Sandboxes> {
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

interface Stage {
  address(source: string): string;
  queue: WorkQueue;
  startWorkers(count: number, atOnce: number): Promise<ChildProcess[]>;
}

/** A database of its own with all accounts as sources, and what is to be done in its queue. */
async function staged(
  server: PostgresServer,
  sandboxes: Sandboxes,
  resources: string[],
  use: (stage: Stage) => Promise<void>,
  pages?: { page: Record<string, unknown>; concurrency: number },
) {
  const folder = mkdtempSync(path.join(tmpdir(), 'content-sync-many-'));
  const name = `many_${Date.now()}`;
  const admin = new Client({ connectionString: server.url() });
  await admin.connect();
  await admin.query(`CREATE DATABASE ${name}`);
  const config = path.join(folder, 'content-sync.yaml');
  writeConfig(folder, config, `${server.url(name)}?schema={source}`, sandboxes, resources, pages);
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
  pages?: { page: Record<string, unknown>; concurrency: number },
): void {
  const page = { size: PAGE, ...pages?.page };
  const profile = {
    extends: 'content-service',
    ...(pages === undefined ? {} : { http: { concurrency: pages.concurrency } }),
    resources: { content: { page }, images: { page }, analytics: { page } },
  };
  writeFileSync(path.join(folder, 'profile.yaml'), JSON.stringify(profile));
  const sources = accounts.map(({ url, apiKey }, n) => [
    nameOf(n),
    {
      base_url: url,
      auth: { type: 'api_key', key: apiKey },
      profile: './profile.yaml',
      rate: { share: 1, ...(pages === undefined ? {} : { requests_per_second: 1_000 }) },
      resources,
      webhook: { secrets: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'] },
    },
  ]);
  writeFileSync(file, JSON.stringify({ warehouse, sources: Object.fromEntries(sources) }));
}

const tell = (error: unknown): void => console.error(error);
const nameOf = (account: number): string => `account_${account}`;
const sum = (numbers: readonly number[]): number => numbers.reduce((all, each) => all + each, 0);

async function untilAsked(sandboxes: Sandboxes, accounts: number): Promise<void> {
  const deadline = performance.now() + LONGEST_START_MS;
  for (;;) {
    const figures = await sandboxes.ask<AccountFigures[]>('figures');
    if (figures.filter(({ requests }) => requests > 0).length >= accounts) break;
    if (performance.now() > deadline) throw new Error(`not all accounts were asked: ${JSON.stringify(figures)}`);
    await delay(500);
  }
  await delay(WARM_UP_MS);
}

async function round(server: PostgresServer, sandboxes: Sandboxes, workers: number): Promise<void> {
  await sandboxes.ask('clear');
  const over = new AbortController();
  await staged(server, sandboxes, ['content'], async (stage) => {
    const { queue } = stage;
    for (let n = 0; n < ACCOUNTS; n += 1) {
      const { id } = await queue.put({ kind: 'walk', source: nameOf(n), resource: 'content', command: 'backfill' });
      // There is more to walk than there is time: whatever ends has gone wrong.
      queue.outcome(id, over.signal).then(
        (end) => tell(JSON.stringify(end)),
        () => undefined,
      );
    }
    const atOnce = Math.ceil(ACCOUNTS / 4);
    await stage.startWorkers(workers, atOnce);
    await untilAsked(sandboxes, Math.min(ACCOUNTS, workers * atOnce));
    const before = await sandboxes.ask<AccountFigures[]>('figures');
    const began = performance.now();
    await delay(SECONDS * 1_000);
    const after = await sandboxes.ask<AccountFigures[]>('figures');
    const seconds = (performance.now() - began) / 1_000;
    const rates = after.map(({ requests }, n) => (requests - (before[n]?.requests ?? 0)) / seconds);
    over.abort();
    const part = sum(rates) / (RATE * ACCOUNTS);
    console.log(
      `${workers} workers: ${Math.round(sum(rates) * PAGE)} records/s, ${(part * 100).toFixed(1)} % of all limits, ` +
        `at most ${Math.max(...rates).toFixed(2)} requests/s on an account that allows ${RATE}; ` +
        `${sum(after.map(({ refused }) => refused))} answers of 429, ${sum(after.map(({ twice }) => twice))} pages read twice`,
    );
  });
}

/** Three walks and re-fetches on one account, whose budget all four share. */
async function oneAccount(server: PostgresServer): Promise<void> {
  const generate = { content: 8_000, images: 8_000, analytics: 8_000 };
  const rate = 20;
  const sandboxes = await startSandboxes({ accounts: 1, generate, rate });
  await staged(server, sandboxes, ['content', 'images', 'analytics'], async (stage) => {
    const { queue } = stage;
    for (const resource of ['content', 'images', 'analytics']) {
      await queue.put({ kind: 'walk', source: nameOf(0), resource, command: 'backfill' });
    }
    await stage.startWorkers(4, 1);
    await untilAsked(sandboxes, 1);
    const before = await sandboxes.ask<AccountFigures[]>('figures');
    const began = performance.now();
    const asked: NonNullable<Parameters<typeof openInbox>[2]>['asked'] = (execute) => askDrain(nameOf(0), execute);
    const inbox = await openInbox(stage.address(nameOf(0)), systemClock, { asked });
    await deliver(inbox);
    await delay(SECONDS * 1_000);
    const after = await sandboxes.ask<AccountFigures[]>('figures');
    const seconds = (performance.now() - began) / 1_000;
    const { waiting } = await inbox.figures();
    await inbox.close();
    const requests = sum(after.map((each) => each.requests)) - sum(before.map((each) => each.requests));
    console.log(
      `4 workers on one account: ${(requests / seconds).toFixed(1)} of ${rate} requests/s, ` +
        `${sum(after.map(({ refused }) => refused))} answers of 429, ` +
        `${sum(after.map(({ twice }) => twice))} pages read twice, ${DELIVERIES - waiting} of ${DELIVERIES} deliveries worked on`,
    );
  });
  sandboxes.close();
}

/** One resource, walked by one worker and by several: no limit, and every answer takes its time. */
async function oneResource(server: PostgresServer): Promise<void> {
  const walks: OneWalk[] = [];
  const page = { style: 'page', size: ONE.page, total: 'total' };
  for (const workers of [1, 4]) {
    const pages = { page, concurrency: workers * ONE.atOnce };
    const sandboxes = await startSandboxes({
      accounts: 1,
      generate: { content: ONE.records },
      latency: ONE.latency,
      pagination: 'page',
    });
    await staged(
      server,
      sandboxes,
      ['content'],
      async (stage) => {
        await stage.startWorkers(workers, 1);
        await settled();
        const began = performance.now();
        const { queue } = stage;
        const { id } = await queue.put({ kind: 'walk', source: nameOf(0), resource: 'content', command: 'backfill' });
        const end = JSON.stringify(await queue.outcome(id, new AbortController().signal));
        if (!end.includes('"status":"ok"')) tell(end);
        const seconds = (performance.now() - began) / 1_000;
        const [figures] = await sandboxes.ask<AccountFigures[]>('figures');
        walks.push({ workers, seconds, requests: figures?.requests ?? 0 });
      },
      pages,
    );
    sandboxes.close();
  }
  console.log(factorText(walks));
}

async function deliver(inbox: Awaited<ReturnType<typeof openInbox>>): Promise<void> {
  const received_at = new Date().toISOString().replace('T', ' ').replace('Z', '');
  const resources = ['content', 'images', 'analytics'];
  for (let n = 0; n < DELIVERIES; n += 1) {
    const data = { resource: resources[n % 3], id: `unknown_${n}` };
    const body = Buffer.from(JSON.stringify({ type: 'updated', data }));
    await inbox.write([{ delivery: { delivery_id: `msg_${n}`, is_id_sent: true, received_at, headers: '{}', body } }]);
  }
}

async function accounts(server: PostgresServer): Promise<void> {
  const records = Math.ceil(RATE * PAGE * (SECONDS + (WARM_UP_MS + LONGEST_START_MS) / 1_000));
  const sandboxes = await startSandboxes({ accounts: ACCOUNTS, generate: { content: records }, rate: RATE });
  for (const workers of options.workers.split(',').map(Number)) await round(server, sandboxes, workers);
  sandboxes.close();
  await oneAccount(server);
}

const server = await startPostgres({ settings: { fsync: 'on', full_page_writes: 'on' } });
try {
  if (options.only !== 'resource') await accounts(server);
  await oneResource(server);
} finally {
  await server.remove();
}
