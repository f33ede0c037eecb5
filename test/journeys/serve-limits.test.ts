import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { longOrShort } from '../support/length.ts';
import { eventBody, resourceIn, servingStage, sourceIn, until } from '../support/serving.ts';
import { lanes } from './serve-lanes.ts';

const FEW = { generate: { content: 80, images: 20, analytics: 40 } };

/** How long the service wants to be left alone, in seconds. */
const WAIT_S = longOrShort(8, 5);

/** Null where the system does not tell. */
function descriptorsOf(pid: number): number | null {
  const folder = `/proc/${pid}/fd`;
  return existsSync(folder) ? readdirSync(folder).length : null;
}

describe('serve, within the limits of others', { timeout: 120_000 }, () => {
  it('F041 webhooks overtake a backfill that uses the whole limit, which still gets its part while they pour in', async () => {
    const { p95, pouring } = await lanes({ rate: 20, pages: 160, webhooks: 8, everyMs: 150, pourMs: 2_000 });
    expect(p95).toBeLessThan(8);
    expect(pouring).toBeGreaterThan(0.05);
  });

  it('F042 parked by the service for longer than max_wait, it waits until then, also over a restart', async () => {
    const stage = await servingStage({ sandbox: { ...FEW, rate: 50 }, source: { max_wait: '2s' } });
    stage.sandbox.faults.add({ fault: 'status', status: 429, 'retry-after': String(WAIT_S) });
    const { requests } = stage.sandbox;
    const first = await stage.serve();
    const parked = async (): Promise<unknown> => {
      const { resources } = sourceIn(await first.status());
      return resources.every(({ parked_until }) => parked_until !== null) || resources;
    };
    await until('parked', parked);
    expect((await first.status()).attention.map(({ what }) => what).join()).toContain('asked to be left alone');
    expect(await first.page('/readyz')).toMatchObject({ status: 200 });
    first.command.kill('SIGKILL');
    await first.command.ended;
    const [before, last] = [requests.total, requests.entries().at(-1)?.at ?? 0];
    stage.sandbox.faults.clear();
    const second = await stage.serve({ isInside: true });
    await until('asked again', () => requests.total > before);
    const next = requests.entries()[before]?.at ?? 0;
    expect(next - last).toBeGreaterThan(WAIT_S * 1_000 - 100);
    await stage.fresh(second);
    expect(resourceIn(await second.status(), 'content').parked_until).toBeNull();
    expect(await second.stop()).toMatchObject({ code: 0 });
  });

  it('F153 with few descriptors and many connections it lives on, and works on when they are gone', async () => {
    const stage = await servingStage({ sandbox: FEW });
    const serving = await stage.serve({ shell: 'ulimit -n 64; exec' });
    await stage.fresh(serving);
    const port = Number(new URL(serving.url).port);
    const sockets: Socket[] = [];
    onTestFinished(() => sockets.forEach((socket) => socket.destroy()));
    for (let n = 0; n < 150; n += 1) sockets.push(connect(port, '127.0.0.1').on('error', () => undefined));
    await Promise.race([
      Promise.all(sockets.map((socket) => once(socket, 'connect').catch(() => undefined))),
      delay(2_000),
    ]);
    stage.write('content', 'new', { title: 'Written without descriptors' });
    const body = eventBody({ resource: 'content', id: 'new' });
    // Some are closed again as fast as they come.
    await until('short of descriptors', () => (descriptorsOf(serving.command.pid) ?? 64) > 55);
    const inNeed = await Promise.race([serving.deliver({ id: 'msg_1', body }), delay(1_500, 0)]);
    expect([0, 202, 503]).toContain(inNeed);
    for (const socket of sockets) socket.destroy();
    await until('heard', async () => (await serving.deliver({ id: 'msg_2', body })) === 202);
    await stage.settled();
    expect(await serving.page('/healthz')).toMatchObject({ status: 200 });
    expect(await serving.stop()).toMatchObject({ code: 0, signal: null });
  });
});
