import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { longOrShort } from '../support/length.ts';
import { resourceIn, servingStage, sourceIn, until } from '../support/serving.ts';

const FEW = { generate: { content: 80, images: 20, analytics: 40 } };

/** How long the service wants to be left alone, in seconds. */
const WAIT_S = longOrShort(8, 5);

describe('serve, within the limits of others', { timeout: 120_000 }, () => {
  it('F041 webhooks overtake a backfill that uses the whole limit, which still gets its part while they pour in', async () => {
    const [rate, pages] = longOrShort([2, 200], [20, 160]);
    const page = { size: 10 };
    const stage = await servingStage({
      isInside: true,
      sandbox: { generate: { content: pages * page.size, images: 10, analytics: 10 }, rate },
      profile: { resources: { content: { page }, images: { page }, analytics: { page } } },
    });
    const serving = await stage.serve();
    const asked = (): number =>
      stage.sandbox.requests.entries().filter(({ path }) => path.startsWith('/v1/content?')).length;
    await until('under way', () => asked() >= 4 || asked());
    await stage.subscribe(serving);
    const ids = [...stage.sandbox.store.list('content')].map(({ id }) => id);
    // From the end: the backfill comes there last.
    for (const [n, id] of ids.slice(-longOrShort(20, 8)).entries())
      stage.write('content', id, { title: `changed ${n}` });
    const changed = (): Promise<unknown> => stage.value("SELECT count(*) FROM content WHERE title LIKE 'changed %'");
    await until('there', async () => (await changed()) === longOrShort(20, 8) || changed());
    const before = asked();
    expect(before).toBeLessThan(pages / 2);
    const over = performance.now() + 2_000;
    for (let n = 0; performance.now() < over; n += 1) {
      stage.write('content', ids[n % ids.length] ?? '', { title: `poured ${n}` });
      await delay(10);
    }
    expect(asked()).toBeGreaterThan(before);
    stage.sandbox.setRate({ rate: 500, burst: 500 });
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
    expect((await first.status()).attention.map(({ what }) => what).join()).toContain('requested a wait');
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
});
