import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { strayRows, miscountedWalks } from '../support/compare-copy.ts';
import { longOrShort, sampled } from '../support/length.ts';
import { eventBody, type Serving, servingStage, type ServingStage, until } from '../support/serving.ts';
import { SQLITE } from '../support/databases.ts';

/** Between two deliveries of each sender in a storm: as fast as can be, or so fast that it is one. */
const BETWEEN_MS = longOrShort(0, 8);

/** Acknowledged deliveries that make a storm. */
const STORMY = longOrShort(150, 40);

const MANY = longOrShort(800, 400);
const LARGE = { generate: { content: MANY, images: 60, analytics: MANY }, latency: 40 };

/** Until so many pages were asked for in all. */
async function underWay({ sandbox }: ServingStage, pages: number): Promise<void> {
  await until('under way', () => sandbox.requests.total >= pages || sandbox.requests.total);
}

const statuses = (stage: ServingStage): Promise<unknown[]> => stage.column('SELECT DISTINCT status FROM _sync_runs');

const idsInInbox = (stage: ServingStage): Promise<unknown[]> =>
  stage.inbox.column('SELECT delivery_id FROM _sync_deliveries');

/** From now on the service says nothing: the records of the storm are being read, and a walk waits that is never had. */
async function silenced({ sandbox }: ServingStage, serving: Serving): Promise<void> {
  sandbox.faults.add({ fault: 'silence' });
  const { total } = sandbox.requests;
  await until('silent', () => sandbox.requests.total > total);
  expect(await serving.deliver({ id: 'msg_1', body: eventBody({ resource: 'content', id: 'x' }) })).toBe(202);
  expect(await serving.deliver({ id: 'msg_2', body: eventBody({ resource: 'content' }) })).toBe(202);
  await delay(300);
}

/** Starts it again: what the first one left is done, no page twice. */
async function goesOn(stage: ServingStage): Promise<Serving> {
  const serving = await stage.serve({ isInside: true });
  await stage.fresh(serving);
  await stage.settled();
  return serving;
}

describe('serve, when it is told to stop', { timeout: 120_000 }, () => {
  it('F147 in the middle of its first walks: exit 0 in time, and the next one goes on at the page in hand', async () => {
    const stage = await servingStage({ sandbox: LARGE });
    const serving = await stage.serve();
    await underWay(stage, 12);
    const ended = await serving.stop();
    expect(ended).toMatchObject({ code: 0, signal: null });
    expect(ended.ms).toBeLessThan(10_000);
    expect(await statuses(stage)).not.toContain('running');
    const asked = new Set(stage.sandbox.requests.entries().map(({ path }) => path));
    stage.sandbox.requests.clear();
    const again = await goesOn(stage);
    const twice = stage.sandbox.requests.entries().filter(({ path }) => asked.has(path));
    for (const pages of Map.groupBy(twice, ({ resource }) => resource).values()) expect(pages.length).toBeLessThan(3);
    expect(await again.stop()).toMatchObject({ code: 0 });
  });

  const STORMS = [{ service: 'answers' }, { service: 'does not answer at all' }];

  it.for(sampled(STORMS, 2))(
    'F147 F177 in a storm of webhooks, while the service $service: exit 0 in time, what was acknowledged is worked on by the next one',
    async ({ service }) => {
      const stage = await servingStage({
        sandbox: { generate: { content: longOrShort(200, 80), images: 20, analytics: 20 }, latency: 20 },
      });
      const serving = await stage.serve();
      await stage.fresh(serving);
      const ids = [...stage.sandbox.store.list('content')].map(({ id }) => id);
      const acked: string[] = [];
      const untold = new Set<string>();
      const send = async (lane: number): Promise<void> => {
        for (let n = 0; untold.size === 0; n += 1) {
          const record = ids[(lane * 37 + n) % ids.length] ?? '';
          stage.write('content', record, { title: `change ${lane} ${n}` });
          const id = `msg_${lane}_${n}`;
          if ((await serving.deliver({ id, body: eventBody({ resource: 'content', id: record }) })) === 202)
            acked.push(id);
          else untold.add(record);
          // While it stops, which takes seconds, fewer will do.
          await delay(acked.length > STORMY ? longOrShort(0, 250) : BETWEEN_MS);
        }
      };
      const senders = Array.from({ length: longOrShort(8, 4) }, (_, lane) => send(lane));
      await until('stormy', () => acked.length > STORMY || acked.length);
      if (service !== 'answers') await silenced(stage, serving);
      const ended = await serving.stop();
      await Promise.all(senders);
      stage.sandbox.faults.clear();
      expect(ended).toMatchObject({ code: 0, signal: null });
      expect(ended.ms).toBeLessThan(10_000);
      const stored = new Set(await idsInInbox(stage));
      expect(acked.filter((id) => !stored.has(id))).toEqual([]);
      const again = await stage.serve({ isInside: true });
      for (const id of untold) {
        expect(await again.deliver({ id: `msg_again_${id}`, body: eventBody({ resource: 'content', id }) })).toBe(202);
      }
      await stage.settled();
      expect(await again.stop()).toMatchObject({ code: 0 });
    },
  );

  it('F147 twice: the second signal ends it at once, and nothing is half written', async () => {
    const stage = await servingStage({ sandbox: LARGE });
    const serving = await stage.serve();
    await underWay(stage, 12);
    stage.sandbox.faults.add({ fault: 'silence' });
    serving.command.kill('SIGTERM');
    const ended = await serving.stop('SIGINT');
    // Where it had ended by itself before the second signal came, that is as well.
    expect([0, 130]).toContain(ended.code);
    expect(ended.ms).toBeLessThan(5_000);
    expect(await stage.read(miscountedWalks)).toEqual([]);
    expect(await stage.read((db) => ['content', 'images', 'analytics'].flatMap((name) => strayRows(db, name)))).toEqual(
      [],
    );
  });
});

const FEW = { generate: { content: 80, images: 20, analytics: 40 } };

describe('two serves on one SQLite file', { timeout: 120_000 }, () => {
  it('F133 both work on it in turn, and the second one goes on alone when the first is gone', async () => {
    const stage = await servingStage({ sandbox: FEW, database: SQLITE });
    const first = await stage.serve();
    await stage.fresh(first);
    const second = await stage.serve({ isInside: true });
    // At rest the copy belongs to nobody, and what the first one has done is not done again.
    expect(await second.page('/readyz')).toMatchObject({ status: 200 });
    // Told to the second one, worked on by either.
    await stage.subscribe(second);
    stage.write('content', 'new', { title: 'Told to the second one' });
    await stage.settled();
    first.command.kill('SIGKILL');
    await first.command.ended;
    stage.write('content', 'new', { title: 'Told when the first one was gone' });
    await stage.settled();
    await until(
      'alone',
      async () => (await second.status()).attention.length === 0 || (await second.status()).attention,
    );
    expect(await second.stop()).toMatchObject({ code: 0 });
  });
});
