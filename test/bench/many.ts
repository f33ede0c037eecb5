import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { systemClock } from '../../src/observe/system-clock.ts';
import { askDrain } from '../../src/serve/work-items/work-items.ts';
import { openInbox } from '../../src/warehouse/databases.ts';
import { startPostgres, type PostgresServer } from '../support/postgres-server.ts';
import { nameOf, PAGE, staged, startSandboxes, sum, tell, type AccountFigures, type Sandboxes } from './many-stage.ts';

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
  },
});
const ACCOUNTS = Number(options.accounts);
const RATE = Number(options.rate);
const SECONDS = Number(options.seconds);
/** After all that are to work have begun, until what was saved up of the limits is used. */
const WARM_UP_MS = 8_000;
const LONGEST_START_MS = 90_000;
const DELIVERIES = 300;

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

type Asked = NonNullable<NonNullable<Parameters<typeof openInbox>[2]>['asked']>;
const asked: Asked = (execute) => askDrain(nameOf(0), execute);

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
  await accounts(server);
} finally {
  await server.remove();
}
