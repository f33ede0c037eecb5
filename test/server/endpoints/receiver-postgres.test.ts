import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../../src/observe/system-clock.ts';
import { WorkQueue } from '../../../src/server/work-items/work-queue.ts';
import { asOtherClient, POSTGRES, preparedAddress } from '../../support/databases.ts';
import { longOrShort } from '../../support/length.ts';
import { startPostgres, type PostgresServer } from '../../support/postgres-server.ts';
import { freshSeed } from '../../support/random.ts';
import {
  CONNECTIONS,
  crashUnder,
  endConnections,
  receiving,
  receivingHere,
  untilTaken,
} from './receiver-postgres-story.ts';
import { receivedSource, receiverStage, rowsOf, send, signed } from './receiver-stage.ts';

const seed = freshSeed();
const REST_MS = 80;
/** Deliveries that each of several receivers gets. */
const COPIES = longOrShort(100, 20);
/** Sources beside the first, several times as many as there are connections. */
const OTHERS = longOrShort(40, 16);

/** A role of its own in a database of its own, as an installation has it; the server's own may do anything. */
async function asRole(): Promise<{ address: string; admin: string; role: string }> {
  const admin = (await POSTGRES.address()).replace(/\?.*/, '');
  const { pathname } = new URL(admin);
  const database = pathname.slice(1);
  const role = `role_${database}`;
  await asOtherClient(admin, (client) =>
    client.query(`CREATE ROLE ${role} LOGIN; GRANT CREATE, CONNECT ON DATABASE ${database} TO ${role}`),
  );
  const drop = `DROP OWNED BY ${role}; DROP ROLE ${role}`;
  onTestFinished(async () => void (await asOtherClient(admin, (client) => client.query(drop))));
  return { address: `${admin.replace('postgres@', `${role}@`)}?schema=blog`, admin, role };
}

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
  it(`F137 loses nothing when its connections are ended at random (SEED=${seed})`, async () => {
    await endConnections({
      address: await POSTGRES.address(),
      seed,
      ...longOrShort({ rounds: 60 }, { rounds: 40, restMs: 10 }),
    });
  });

  it('F141 says 503 while the server has no connection left, or is read-only, and goes on by itself', async () => {
    const { address, admin, role } = await asRole();
    const receiver = await receivingHere(address);
    expect((await send(receiver.port, signed(receiver.source))).status).toBe(202);
    const troubles = [
      [`ALTER ROLE ${role} CONNECTION LIMIT 0`, `ALTER ROLE ${role} CONNECTION LIMIT -1`],
      [
        `ALTER ROLE ${role} SET default_transaction_read_only TO on`,
        `ALTER ROLE ${role} RESET default_transaction_read_only`,
      ],
      [`ALTER ROLE ${role} NOLOGIN`, `ALTER ROLE ${role} LOGIN`],
    ] as const;
    for (const [begin, end] of troubles) {
      await asOtherClient(admin, (client) => client.query(`${begin}; SELECT pg_terminate_backend(pid) ${CONNECTIONS}`));
      const answers = await Promise.all(Array.from({ length: 30 }, () => send(receiver.port, signed(receiver.source))));
      expect([begin, ...new Set(answers.map(({ status }) => status))]).toEqual([begin, 503]);
      // Those that began while it was read-only stay so.
      await asOtherClient(admin, (client) => client.query(`${end}; SELECT pg_terminate_backend(pid) ${CONNECTIONS}`));
      expect(await untilTaken(receiver)).toBeLessThan(5_000);
    }
    const open = await asOtherClient(admin, (client) => client.query(`SELECT pid ${CONNECTIONS}`));
    expect(open.rowCount).toBeLessThanOrEqual(8);
    expect(await receiver.stop()).toMatchObject({ code: 0, stderr: '' });
  });

  it('F178 says 503 within a second while its table is locked, and takes the repeat', async () => {
    const address = await preparedAddress(POSTGRES);
    const receiver = await receivingHere(address);
    const deliveries = Array.from({ length: 20 }, () => signed(receiver.source));
    const post = () => Promise.all(deliveries.map((delivery) => send(receiver.port, delivery)));
    await asOtherClient(address, async (client) => {
      await client.query('BEGIN; LOCK TABLE _sync_deliveries');
      const began = performance.now();
      expect(new Set((await post()).map(({ status }) => status))).toEqual(new Set([503]));
      expect(performance.now() - began).toBeLessThan(3_000);
      expect((await send(receiver.port, { method: 'GET', path: '/healthz' })).status).toBe(200);
      await client.query('COMMIT');
    });
    await Promise.all(deliveries.map((delivery) => untilTaken(receiver, delivery)));
    expect((await rowsOf(receiver.source, POSTGRES)).length).toBe(20);
    expect(await receiver.stop()).toMatchObject({ code: 0, stderr: '' });
  });

  it('asks the workers for the work in the same transaction, once however much comes', async () => {
    const address = await POSTGRES.address();
    const queue = new WorkQueue({ address, clock: systemClock, failed: () => undefined });
    onTestFinished(() => queue.close());
    await queue.opened;
    const stage = await receiverStage({
      database: { ...POSTGRES, address: async () => address },
      source: { asks: 'workers' },
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

  it('F172 is one of several on the same inbox: a delivery that reaches all of them is one row, and counted', async () => {
    const address = await preparedAddress(POSTGRES);
    const receivers = await Promise.all([1, 2, 3].map(() => receivingHere(address)));
    const [first] = receivers;
    if (first === undefined) throw new Error('there are three');
    const deliveries = Array.from({ length: COPIES }, (_, number) => signed(first.source, { id: `msg_${number}` }));
    const orders = receivers.map((receiver, at) => ({
      receiver,
      order: at === 1 ? deliveries.toReversed() : deliveries,
    }));
    await Promise.all(orders.flatMap(({ receiver, order }) => order.map((delivery) => untilTaken(receiver, delivery))));
    const rows = await rowsOf(first.source, POSTGRES);
    // On a busy machine some are refused in time, stored all the same, and sent once more.
    expect(rows.length).toBe(COPIES);
    expect(Math.min(...rows.map(({ repeats }) => repeats))).toBeGreaterThanOrEqual(2);
    for (const receiver of receivers) expect(await receiver.stop()).toMatchObject({ code: 0, stderr: '' });
  });
});
