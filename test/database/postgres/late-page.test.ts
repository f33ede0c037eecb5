import { connect, createServer } from 'node:net';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { Warehouse } from '../../../src/database/warehouse.ts';
import { portOf } from '../../faults/port-of.ts';
import { asOtherClient, POSTGRES, warehouseOn, preparedAddress } from '../../support/databases.ts';
import { loading } from '../../support/page-loading.ts';
import { messageReader, type WireMessage } from '../../support/postgres-wire.ts';

/**
 * A way to Postgres on which all that one connection sends gets stuck once it is told to, and the connection is lost to
 * whoever sent it; until it is delivered after all.
 */
async function delayingProxy(address: string) {
  const { hostname, port } = new URL(address);
  let isArmed = false;
  let stuck: (() => Promise<WireMessage[]>) | null = null;
  const server = createServer((client) => {
    const upstream = connect({ host: hostname, port: Number(port), noDelay: true });
    const late: Buffer[] = [];
    let isLost = false;
    client.on('error', () => undefined).on('close', () => isLost || upstream.destroy());
    upstream.on('error', () => undefined).on('close', () => client.destroy());
    client.on('data', (chunk) => {
      if (!isArmed && !isLost) {
        upstream.write(chunk);
        return;
      }
      isArmed = false;
      isLost = true;
      late.push(chunk);
      stuck = () =>
        new Promise((resolve) => {
          const [read, messages]: [ReturnType<typeof messageReader>, WireMessage[]] = [messageReader(), []];
          upstream.on('data', (answer) => {
            messages.push(...read(answer));
            if (messages.some(({ letter }) => letter === 'Z')) resolve(messages);
          });
          upstream.write(Buffer.concat(late));
        });
      setTimeout(() => client.destroy(), 50);
    });
    upstream.on('data', (chunk) => isLost || client.write(chunk));
    onTestFinished(() => void upstream.destroy());
  });
  const own = await portOf(server);
  onTestFinished(() => void server.close());
  return {
    through: address.replace(`${hostname}:${port}`, `127.0.0.1:${own}`),
    arm: () => (isArmed = true),
    deliver: () => vi.waitUntil(() => stuck).then((send) => send()),
  };
}

describe.skipIf(POSTGRES.missing !== null)('a page that comes to the server late', () => {
  it('is not committed once it was written again', async () => {
    const address = await preparedAddress(POSTGRES);
    const proxy = await delayingProxy(address);
    const { warehouse } = await warehouseOn(POSTGRES, proxy.through);
    let isLate = false;
    const late: Warehouse = {
      ...warehouse,
      commit: (page) => {
        if (isLate) proxy.arm();
        isLate = false;
        return warehouse.commit(page);
      },
    };
    const { load } = await loading(late, { profile: { history: 'none' } });
    await load(['{"id":"1","n":1}'], 1_000);
    isLate = true;
    await load(['{"id":"1","n":2}'], 2_000);
    const stands = () =>
      asOtherClient(address, (client) => client.query('SELECT id, n::int, _version::int, xmin FROM content'));
    const { rows } = await stands();
    expect(rows).toMatchObject([{ id: '1', n: 2, _version: 2 }]);
    await proxy.deliver();
    expect((await stands()).rows).toEqual(rows);
  });
});
