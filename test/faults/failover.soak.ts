import { connect, createServer, type Socket } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { POSTGRES, postgresAt } from '../support/databases.ts';
import { startPostgres, type PostgresServer } from '../support/postgres-server.ts';
import { portOf } from './port-of.ts';
import { PAGES, runSetBack, thirteenPages } from './set-back.ts';

/** An address under which one server is found, and from a moment on another one. */
async function sharedAddress(first: PostgresServer) {
  let { port } = first;
  const open = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect({ host: '127.0.0.1', port });
    for (const [socket, opposite] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      open.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        open.delete(socket);
        opposite.destroy();
      });
      socket.pipe(opposite);
    }
  });
  const own = await portOf(server);
  onTestFinished(() => {
    server.close();
    for (const socket of open) socket.destroy();
  });
  return {
    url: `postgres://postgres@127.0.0.1:${own}/postgres`,
    leadTo: (other: PostgresServer) => {
      ({ port } = other);
      for (const socket of open) socket.destroy();
    },
  };
}

/** A primary, a standby that follows it, and the moment at which the one dies and the other takes over. */
async function pairOfServers() {
  const primary = await startPostgres();
  onTestFinished(() => primary.remove());
  const standby = await primary.follow();
  onTestFinished(() => standby.remove());
  const address = await sharedAddress(primary);
  const putBack = async (): Promise<void> => {
    await primary.crash();
    await standby.promote();
    address.leadTo(standby);
  };
  const keep = async () => {
    await standby.stopFollowing(primary);
    return { putBack };
  };
  return { database: postgresAt(address.url), keep };
}

describe.skipIf(POSTGRES.missing !== null)('a failover to a standby that lagged behind', () => {
  const cuts = Array.from({ length: PAGES }, (_, page) => page + 1).flatMap((keptAt) =>
    [keptAt + 1, keptAt + 4].filter((page) => page <= PAGES + 1).map((putBackAt) => [keptAt, putBackAt] as const),
  );

  it.each(cuts)('loses no page: it had heard of nothing since page %i, and takes over at page %i', async (from, to) => {
    const { database, keep } = await pairOfServers();
    const stage = await thirteenPages(database);
    const report = await runSetBack(stage, { keptAt: from, putBackAt: to, keep }, 'backfill');
    expect(report).toMatchObject({ status: 'ok', warnings: [{ code: 'warehouse_set_back' }] });
    expect(await stage.unlike()).toEqual([]);
    expect(await stage.walk()).toMatchObject({ status: 'ok', inserted: 0, updated: 0 });
  });

  it.each([1, 7, PAGES])(
    'loses no page and no delete behind the end of the walk: it lagged since page %i',
    async (from) => {
      const { database, keep } = await pairOfServers();
      const stage = await thirteenPages(database);
      await stage.walk('backfill');
      stage.service.records.delete('r050');
      const moments = { keptAt: from, putBackAt: '/v1/content/r050', keep };
      expect(await runSetBack(stage, moments, 'backfill')).toMatchObject({ status: 'ok', deleted: 1 });
      expect(await stage.unlike()).toEqual([]);
    },
  );
});
