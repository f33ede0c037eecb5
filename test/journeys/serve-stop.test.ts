import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { servingStage, until, type Serving, type ServingStage } from '../support/serving.ts';

const LARGE = { generate: { content: 1_200, images: 60, analytics: 1_200 }, latency: 60 };

/** Until so many pages were asked for in all. */
async function underWay({ sandbox }: ServingStage, pages: number): Promise<void> {
  await until('under way', () => sandbox.requests.total >= pages || sandbox.requests.total);
}

const statuses = (stage: ServingStage): unknown[] =>
  stage.read((db) => db.prepare('SELECT DISTINCT status FROM _sync_runs').pluck().all());

const idsInInbox = (stage: ServingStage): unknown[] =>
  stage.readInbox((db) => db.prepare('SELECT delivery_id FROM _sync_deliveries').pluck().all());

/** Starts it again: what the first one left is done, no page twice. */
async function goesOn(stage: ServingStage): Promise<Serving> {
  const serving = await stage.serve();
  await stage.fresh(serving);
  await stage.settled();
  return serving;
}

describe('serve, when it is told to stop', () => {
  it('F147 in the middle of its first walks: exit 0 in time, and the next one goes on at the page in hand', async () => {
    const stage = await servingStage({ sandbox: LARGE });
    const serving = await stage.serve();
    await underWay(stage, 12);
    const ended = await serving.stop();
    expect(ended).toMatchObject({ code: 0, signal: null });
    expect(ended.ms).toBeLessThan(10_000);
    expect(statuses(stage)).not.toContain('running');
    const asked = new Set(stage.sandbox.requests.entries().map(({ path }) => path));
    stage.sandbox.requests.clear();
    const again = await goesOn(stage);
    const twice = stage.sandbox.requests.entries().filter(({ path }) => asked.has(path));
    for (const pages of Map.groupBy(twice, ({ resource }) => resource).values()) expect(pages.length).toBeLessThan(3);
    expect(await again.stop()).toMatchObject({ code: 0 });
  });

  it('F147 F177 in a storm of webhooks: exit 0 in time, what was acknowledged is worked on by the next one', async () => {
    const stage = await servingStage({
      sandbox: { generate: { content: 200, images: 20, analytics: 20 }, latency: 20 },
    });
    const serving = await stage.serve();
    await stage.fresh(serving);
    const ids = [...stage.sandbox.store.list('content')].map(({ id }) => id);
    const acked: string[] = [];
    let isOver = false;
    const send = async (lane: number): Promise<void> => {
      for (let n = 0; !isOver; n += 1) {
        const record = ids[(lane * 37 + n) % ids.length] ?? '';
        stage.write('content', record, { title: `change ${lane} ${n}` });
        const id = `msg_${lane}_${n}`;
        const body = JSON.stringify({ type: 'content.updated', data: { resource: 'content', id: record } });
        if ((await serving.deliver({ id, body })) === 202) acked.push(id);
        else await delay(20);
      }
    };
    const senders = Array.from({ length: 8 }, (_, lane) => send(lane));
    await until('stormy', () => acked.length > 150 || acked.length);
    const ended = await serving.stop();
    isOver = true;
    await Promise.all(senders);
    expect(ended).toMatchObject({ code: 0, signal: null });
    expect(ended.ms).toBeLessThan(10_000);
    const stored = new Set(idsInInbox(stage));
    expect(acked.filter((id) => !stored.has(id))).toEqual([]);
    const again = await stage.serve();
    // What was changed while nobody listened, and was not acknowledged, is told of once more.
    for (const id of ids) stage.write('content', id);
    await stage.run('sync');
    for (const id of ids) {
      const body = JSON.stringify({ type: 'content.updated', data: { resource: 'content', id } });
      expect(await again.deliver({ id: `msg_again_${id}`, body })).toBe(202);
    }
    await stage.settled();
    expect(await again.stop()).toMatchObject({ code: 0 });
  });

  it('F147 while the service does not answer at all: exit 0 in time', async () => {
    const stage = await servingStage({ sandbox: LARGE });
    const serving = await stage.serve();
    await underWay(stage, 6);
    stage.sandbox.faults.add({ fault: 'silence' });
    const { total } = stage.sandbox.requests;
    await until('silent', () => stage.sandbox.requests.total > total);
    // One delivery for a record, whose reading hangs; one for a walk, which is never had.
    const about = (data: object): string => JSON.stringify({ type: 'content.updated', data });
    expect(await serving.deliver({ id: 'msg_1', body: about({ resource: 'content', id: 'x' }) })).toBe(202);
    expect(await serving.deliver({ id: 'msg_2', body: about({ resource: 'content' }) })).toBe(202);
    await delay(300);
    const ended = await serving.stop();
    expect(ended).toMatchObject({ code: 0, signal: null });
    expect(ended.ms).toBeLessThan(10_000);
    stage.sandbox.faults.clear();
    expect(await (await goesOn(stage)).stop()).toMatchObject({ code: 0 });
  });

  it('F147 twice: the second signal ends it at once, and nothing is half written', async () => {
    const stage = await servingStage({ sandbox: LARGE });
    const serving = await stage.serve();
    await underWay(stage, 12);
    stage.sandbox.faults.add({ fault: 'silence' });
    serving.command.kill('SIGTERM');
    await until('stopping', () => serving.command.logged().includes('"msg":"stopping"'));
    const ended = await serving.stop('SIGINT');
    // Where it had ended by itself before the second signal came, that is as well.
    expect([0, 130]).toContain(ended.code);
    expect(ended.ms).toBeLessThan(5_000);
    stage.sandbox.faults.clear();
    await goesOn(stage);
  });
});
