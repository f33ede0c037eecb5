import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../../src/observe/system-clock.ts';
import { WorkQueue } from '../../../src/server/work-items/work-queue.ts';
import { asOtherClient, POSTGRES } from '../../support/databases.ts';
import { longOrShort } from '../../support/length.ts';
import { type PostgresServer, startPostgres } from '../../support/postgres-server.ts';
import { CONNECTIONS, crashUnder, receiving, receivingHere, untilTaken } from './receiver-postgres-story.ts';
import { receivedSource, receiverStage, send, signed } from './receiver-stage.ts';

const REST_MS = 80;
/** Sources beside the first, several times as many as there are connections. */
const OTHERS = longOrShort(40, 16);

describe.skipIf(POSTGRES.missing !== null)('a receiver whose database server crashes', () => {
  const servers: PostgresServer[] = [];
  afterAll(() => Promise.all(servers.map((server) => server.remove())));

  it('F136 F141 keeps what it acknowledged, says 503 meanwhile, is back at once, and ends while it is gone', async () => {
    const server = await startPostgres();
    servers.push(server);
    const receiver = await receiving(`${server.url()}?schema=blog`);
    await crashUnder(receiver, server, { crashes: 1, restMs: REST_MS });
    expect((await send(receiver.port, signed(receiver.source))).status).toBe(202);
    await server.crash();
    expect((await send(receiver.port, signed(receiver.source))).status).toBe(503);
    expect(await receiver.stop()).toMatchObject({ code: 0, stderr: '' });
  });
});

describe.skipIf(POSTGRES.missing !== null)('a receiver on Postgres', () => {
  it('asks the workers for the work in the same transaction, once however much comes', async () => {
    const address = await POSTGRES.address();
    const queue = new WorkQueue({ address, clock: systemClock, failed: () => undefined });
    onTestFinished(() => queue.close());
    await queue.opened;
    const stage = await receiverStage({
      database: { ...POSTGRES, address: async () => address },
      source: { isQueued: true },
    });
    for (let sent = 0; sent < 3; sent += 1) {
      expect((await send(stage.port, signed(stage.source))).status).toBe(202);
    }
    const jobs = 'SELECT name, data FROM content_sync_boss.job';
    const { rows } = await asOtherClient(address, (client) => client.query<object>(jobs));
    expect(rows).toEqual([{ name: 'drain', data: { source: 'blog' } }]);
  });

  it('takes deliveries for many sources through few connections', async () => {
    const address = await POSTGRES.address();
    const others = Array.from({ length: OTHERS }, (_, number) =>
      receivedSource(address.replace('schema=blog', `schema=other_${number}`), { name: `other_${number}` }),
    );
    const receiver = await receivingHere(address, others);
    const deliveries = [receiver.source, ...others].map((source) =>
      signed(source, { path: `/webhooks/${source.name}` }),
    );
    await Promise.all(deliveries.map((delivery) => untilTaken(receiver, delivery)));
    const open = await asOtherClient(address, (client) => client.query(`SELECT pid ${CONNECTIONS}`));
    expect(open.rowCount).toBeLessThanOrEqual(8);
    expect(await receiver.stop()).toMatchObject({ code: 0, stderr: '' });
  });
});
