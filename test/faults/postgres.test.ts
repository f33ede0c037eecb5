import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../src/observe/system-clock.ts';
import { differences } from '../support/compare-copy.ts';
import { asOtherClient, POSTGRES, postgresAt, preparedPostgres, type TestDatabase } from '../support/databases.ts';
import { draining, eventFor } from '../support/draining.ts';
import { flakyProxy } from '../support/flaky-proxy.ts';
import { type PostgresServer, type ServerOptions, startPostgres } from '../support/postgres-server.ts';
import { isCommitted } from '../support/postgres-wire.ts';
import { transactionPooler } from '../support/transaction-pooler.ts';
import { IS_LONG, longOrShort } from '../support/length.ts';
import { setTimeout as delay } from 'node:timers/promises';
import type { Command } from '../support/command.ts';
import { journey, type Journey } from '../support/journey.ts';

/** As long as one statement may take, and somewhat more. */
const HUNG_MS = 90_000;

describe.runIf(IS_LONG && POSTGRES.missing === null)('a Postgres that gets lost, for long', () => {
  it('F144 a statement that hangs ends its resource with a clear error, and no other', async () => {
    const stage = await slowStage(POSTGRES, 4);
    await expectWhole(stage, stage.start('backfill'));
    await asOtherClient(stage.address, async (client) => {
      await client.query(
        'CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(600); RETURN NEW; END $$',
      );
      await client.query(
        'CREATE TRIGGER hang BEFORE INSERT OR UPDATE ON content FOR EACH STATEMENT EXECUTE FUNCTION hang()',
      );
    });
    const updated_at = new Date().toISOString();
    for (const resource of ['content', 'images', 'analytics']) {
      const [first] = stage.sandbox.store.list(resource);
      stage.sandbox.store.put(resource, { id: first?.id ?? '', title: 'changed', updated_at });
    }
    const began = performance.now();
    const { code, stdout, stderr } = await stage.start('sync', '--json').ended;
    expect(performance.now() - began).toBeLessThan(HUNG_MS);
    expect([code, stderr]).toEqual([3, expect.stringContaining('a statement took longer than it may')]);
    const { resources }: { resources: { resource: string; status: string }[] } = JSON.parse(stdout);
    const ends = Object.fromEntries(resources.map(({ resource, status }) => [resource, status]));
    expect(ends).toEqual({ content: 'failed', images: 'ok', analytics: 'ok' });
  });
});

const RESOURCES = ['content', 'images', 'analytics'] as const;
const TERMINATE = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE application_name = 'content-sync' AND datname = current_database() AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1`;

/** A service that is copied in so many pages for each resource, each of which takes a moment. */
function slowStage(database: TestDatabase, pages: number): Promise<Journey> {
  const size = 20;
  const profile = { resources: Object.fromEntries(RESOURCES.map((name) => [name, { page: { size } }])) };
  const generate = Object.fromEntries(RESOURCES.map((name) => [name, pages * size]));
  return journey({ database, sandbox: { generate, latency: 60 }, profile });
}

/** Crashes the server time and again while a command runs; the longest that the command needed to go on afterwards. */
async function crashMeanwhile(
  command: Command,
  { sandbox }: Journey,
  server: PostgresServer,
  { times, everyMs }: { times: number; everyMs: number },
): Promise<number> {
  let longest = 0;
  for (let crash = 0; crash < times && !(await hasEnded(command, everyMs)); crash += 1) {
    await server.crash();
    await delay(300);
    const before = sandbox.requests.total;
    await server.start();
    const accepted = performance.now();
    // The page that was being written, and the one that was fetched ahead, say nothing.
    while (sandbox.requests.total < before + 2 && !(await hasEnded(command, 5)));
    longest = Math.max(longest, performance.now() - accepted);
  }
  return longest;
}

/** Ends one of the product's sessions after the other while a command runs; returns how many. */
async function terminateMeanwhile(command: Command, { address }: Journey, times: number): Promise<number> {
  return asOtherClient(address, async (client) => {
    let ended = 0;
    while (ended < times && !(await hasEnded(command, 20))) ended += (await client.query(TERMINATE)).rowCount ?? 0;
    return ended;
  });
}

/** The command has ended well, the copy is the service, and no record was written twice. */
async function expectWhole(stage: Journey, command: Pick<Command, 'ended'>): Promise<void> {
  expect(await command.ended).toMatchObject({ code: 0, signal: null });
  expect(await stage.read((db) => differences(db, stage.sandbox.store))).toEqual([]);
  const versions = await stage.value('SELECT max(version) FROM _sync_versions');
  expect(versions).toBe(1);
}

async function hasEnded(command: Command, ms: number): Promise<boolean> {
  return Promise.race([delay(ms, false), command.ended.then(() => true)]);
}

async function ownServer(options: ServerOptions = {}) {
  const server = await startPostgres(options);
  onTestFinished(() => server.remove());
  return server;
}

describe.skipIf(POSTGRES.missing !== null)('a Postgres that gets lost', () => {
  it('F136 F141 a server that crashes every few seconds: all is there once, and it goes on within 5 s', async () => {
    const server = await ownServer();
    const stage = await slowStage(postgresAt(server.url()), longOrShort(40, 16));
    const command = await stage.startUntil(6, 'backfill');
    const longest = await crashMeanwhile(command, stage, server, { times: longOrShort(3, 1), everyMs: 700 });
    expect(longest).toBeLessThan(5_000);
    await expectWhole(stage, command);
  });

  it('F137 sessions that are ended at random, time and again: all is there once', async () => {
    const times = longOrShort(200, 6);
    const stage = await slowStage(POSTGRES, longOrShort(250, 10));
    const command = await stage.startUntil(4, 'backfill');
    expect(await terminateMeanwhile(command, stage, times)).toBe(times);
    await expectWhole(stage, command);
  });

  it('F138 connections that are cut when a COMMIT is answered, time and again: nothing is lost or written twice', async () => {
    const url = await preparedPostgres();
    let commits = 0;
    const proxy = await flakyProxy(url, (message) => isCommitted(message) && (commits += 1) % 4 === 0);
    const stage = await slowStage(postgresAt(url, proxy.through), longOrShort(12, 8));
    await expectWhole(stage, { ended: stage.command('backfill') });
    expect(proxy.cuts()).toBeGreaterThan(5);
  });

  it('F141 a server with few connections, some of them taken: the pool waits, and lets all of them go', async () => {
    const server = await ownServer({ settings: { max_connections: '5', superuser_reserved_connections: '0' } });
    const stage = await slowStage(postgresAt(server.url()), longOrShort(8, 3));
    await asOtherClient(server.url(), () => expectWhole(stage, { ended: stage.command('backfill') }));
    const left = 'SELECT pid FROM pg_stat_activity WHERE application_name = $1';
    const sessions = (): Promise<unknown[]> =>
      asOtherClient(server.url(), async (client) => (await client.query(left, ['content-sync'])).rows);
    await expect.poll(sessions, { timeout: 10_000 }).toEqual([]);
  });

  it('F141 a server that is read-only for a moment, as while another one takes over, is waited for', async () => {
    const url = await preparedPostgres();
    const name = new URL(url).pathname.slice(1);
    const stage = await slowStage(postgresAt(url), longOrShort(12, 8));
    const command = await stage.startUntil(4, 'backfill');
    const become = (readOnly: string): Promise<unknown> =>
      asOtherClient(url, async (client) => {
        await client.query('SET default_transaction_read_only TO off');
        await client.query(`ALTER DATABASE ${name} SET default_transaction_read_only TO ${readOnly}`);
        await client.query(
          'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()',
          [name],
        );
      });
    await become('on');
    await systemClock.sleep(longOrShort(1_500, 700));
    await become('off');
    await expectWhole(stage, command);
  });
});

describe.skipIf(POSTGRES.missing !== null)('a pooler in transaction mode', () => {
  it('changes nothing: a backfill, a sync and an inbox work through two connections', async () => {
    const url = await preparedPostgres();
    const pooler = await transactionPooler(url, 2);
    const stage = await slowStage(postgresAt(url, pooler.through), 4);
    await expectWhole(stage, { ended: stage.command('backfill') });
    const [first] = stage.sandbox.store.list('content');
    const id = first?.id ?? '';
    const put = (title: string, at: number): void =>
      stage.sandbox.store.put('content', { id, title, updated_at: new Date(at).toISOString() });
    put('synced', Date.now());
    expect((await stage.run('sync')).status).toBe('ok');
    const inbox = await draining(stage);
    put('told', Date.now() + 1_000);
    await inbox.deliver(eventFor('content', id));
    await inbox.settled();
    await inbox.close();
    expect(inbox.errors).toEqual([]);
    expect(await stage.read((db) => differences(db, stage.sandbox.store))).toEqual([]);
    expect(pooler.lent()).toBeGreaterThan(20);
  });
});
