import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { freshSeed, randomFrom } from '../support/random.ts';
import { eventBody, servingStage, sourceIn, until } from '../support/serving.ts';
import { storm } from './serve-storm.ts';

const RECORDS = { content: 400, images: 40, analytics: 40 };
const EVERY_MINUTE = { incremental: '* * * * *', full: '17 3 * * *', jitter: '0s' };

describe('serve, for some minutes', () => {
  it('F176 a storm about 50 records for 20 s: stored or 503, few readings, and equal in the end', async () => {
    const stage = await servingStage({ sandbox: { generate: RECORDS } });
    const serving = await stage.serve();
    await stage.fresh(serving);
    const seen = await storm(stage, serving, { records: 50, perSecond: 5_000, seconds: 20 });
    console.log(
      `${Math.round(seen.sentPerSecond)} events/s sent, answers ${JSON.stringify(seen.statuses)}, ` +
        `${seen.readsPerSecond.toFixed(2)} readings per record and second`,
    );
    expect(Object.keys(seen.statuses).filter((status) => status !== '202' && status !== '503')).toEqual([]);
    expect(seen.readsPerSecond).toBeLessThanOrEqual(1.1);
  });

  it('F190 of the changes whose webhook was lost, all are there after one interval of the schedule', async () => {
    const stage = await servingStage({ sandbox: { generate: RECORDS }, source: { schedule: EVERY_MINUTE } });
    const random = randomFrom(freshSeed());
    const serving = await stage.serve();
    await stage.fresh(serving);
    const ids = [...stage.sandbox.store.list('content')].map(({ id }) => id);
    let lost = 0;
    for (const [n, id] of ids.entries()) {
      stage.write('content', id, { title: `change ${n}` });
      const body = eventBody({ resource: 'content', id });
      const isLost = random.chance(0.05);
      lost += isLost ? 1 : 0;
      expect(isLost ? 202 : await serving.deliver({ id: `msg_${n}`, body })).toBe(202);
      await delay(20);
    }
    const began = performance.now();
    await stage.settled('blog', 90_000);
    const { by_schedule, by_webhook } = sourceIn(await serving.status()).changes;
    const seconds = Math.round((performance.now() - began) / 1_000);
    console.log(`${lost} lost, all there after ${seconds} s; by schedule ${by_schedule}, by webhook ${by_webhook}`);
    expect(by_schedule).toBeGreaterThanOrEqual(lost > 0 ? 1 : 0);
  });

  it('F152 F159 after minutes in which the service was down it is fresh again by itself', async () => {
    const stage = await servingStage({
      sandbox: { generate: RECORDS },
      profile: { http: { attempts: 3 } },
      source: { schedule: EVERY_MINUTE },
    });
    const serving = await stage.serve();
    await stage.fresh(serving);
    await stage.subscribe(serving);
    stage.sandbox.faults.add({ fault: 'status', status: 502 });
    for (let n = 0; n < 150; n += 1) {
      stage.write('content', `down_${n % 20}`, { title: `written while it was down ${n}` });
      await delay(1_000);
    }
    expect(await serving.page('/readyz')).toMatchObject({ status: 200 });
    expect((await serving.status()).attention.length).toBeGreaterThan(0);
    stage.sandbox.faults.clear();
    const began = performance.now();
    await stage.settled('blog', 10 * 60_000);
    await until('content', async () => (await serving.status()).attention.length === 0, 10 * 60_000);
    console.log(`fresh again ${Math.round((performance.now() - began) / 1_000)} s after the service was back`);
    expect(await serving.stop()).toMatchObject({ code: 0 });
  });
});
