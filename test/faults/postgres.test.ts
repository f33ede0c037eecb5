import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../src/observe/system-clock.ts';
import { differences } from '../support/compare-copy.ts';
import { asOtherClient, POSTGRES, postgresAt, preparedPostgres } from '../support/databases.ts';
import { draining, eventFor } from '../support/draining.ts';
import { flakyProxy } from '../support/flaky-proxy.ts';
import { startPostgres, type ServerOptions } from '../support/postgres-server.ts';
import { isCommitted } from '../support/postgres-wire.ts';
import { transactionPooler } from '../support/transaction-pooler.ts';
import { longOrShort } from '../support/length.ts';
import { crashMeanwhile, expectWhole, slowStage, terminateMeanwhile } from './losing-postgres.ts';

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
    const times = longOrShort(20, 6);
    const stage = await slowStage(POSTGRES, longOrShort(30, 10));
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
