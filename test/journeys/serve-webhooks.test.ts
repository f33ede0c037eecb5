import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { USUAL } from '../support/databases.ts';
import {
  eventBody,
  openServingStage,
  resourceIn,
  type Serving,
  servingStage,
  type ServingStage,
  sourceIn,
  until,
} from '../support/serving.ts';

const RECORDS = { content: 120, images: 20, analytics: 20 };

describe('serve, told by webhooks', { timeout: 120_000 }, () => {
  let stage: ServingStage;
  let serving: Serving;
  let subscription: string;
  let sent = 0;

  const tell = (data: object, type = 'content.updated'): Promise<number> =>
    serving.deliver({ id: `msg_${(sent += 1)}`, body: eventBody(data, type) });
  const row = (id: string): Promise<unknown> =>
    stage.one('SELECT title, _version, _deleted_at FROM content WHERE id = ?', id);

  beforeAll(async () => {
    stage = await openServingStage({ sandbox: { generate: RECORDS, latency: 5 }, isInside: true });
    serving = await stage.serve();
    await stage.fresh(serving);
    subscription = await stage.subscribe(serving);
  });
  afterAll(() => stage.close());

  it('F175 events of one record that come in the wrong order, or within one second, end with its last state', async () => {
    const data = { resource: 'content', id: 'ordered' };
    const times = ['00:00:01', '00:00:02', '00:00:03'].map((time) => `2031-05-01T${time}.000Z`);
    for (const [n, updated_at] of times.entries())
      stage.sandbox.store.put('content', { id: 'ordered', title: `v${n + 1}`, updated_at });
    for (const n of [2, 0, 1]) expect(await tell({ ...data, updated_at: times[n] })).toBe(202);
    await stage.settled();
    expect(await row('ordered')).toMatchObject({ title: 'v3', _deleted_at: null });
    for (let n = 4; n < 24; n += 1) stage.write('content', 'ordered', { title: `v${n}` });
    await stage.settled();
    expect(await row('ordered')).toMatchObject({ title: 'v23' });
  });

  it('F083 a record that is deleted and made again at once is live, and its false delete event deletes nothing', async () => {
    stage.write('content', 'phoenix', { title: 'first' });
    await stage.settled();
    stage.sandbox.store.remove('content', 'phoenix');
    stage.write('content', 'phoenix', { title: 'second' });
    await stage.settled();
    expect(await row('phoenix')).toMatchObject({ title: 'second', _deleted_at: null });
    expect(await tell({ resource: 'content', id: 'phoenix' }, 'content.deleted')).toBe(202);
    await stage.settled();
    expect(await row('phoenix')).toMatchObject({ title: 'second', _deleted_at: null });
  });

  it('F190 what no webhook told of is brought by the next walk, and the page counts it', async () => {
    await stage.unsubscribe(subscription);
    const ids = [...stage.sandbox.store.list('content')].slice(0, 30).map(({ id }) => id);
    for (const id of ids) stage.write('content', id, { title: 'Nobody was told' });
    const walksBefore = await stage.value('SELECT count(*) FROM _sync_runs');
    const { by_schedule, by_webhook } = sourceIn(await serving.status()).changes;
    // An event without an id asks for a walk, as the schedule does.
    expect(await tell({ resource: 'content' })).toBe(202);
    await stage.settled();
    const { changes } = sourceIn(await serving.status());
    expect(changes).toEqual({ by_schedule: by_schedule + 30, by_webhook });
    const walks = await stage.column('SELECT mode FROM _sync_runs');
    expect(walks.slice(Number(walksBefore))).toEqual(['incremental']);
  });
});

const liveRows = (stage: ServingStage, id: string): Promise<unknown[]> =>
  stage.all('SELECT id FROM content WHERE id = ? AND _deleted_at IS NULL', id);

/** Copies everything, so long ago that a full walk is due. */
async function copiedLongAgo(stage: ServingStage): Promise<void> {
  const { code, stderr } = await stage.run('backfill');
  if (code !== 0) throw new Error(stderr);
  await stage.change("UPDATE _sync_checkpoints SET last_full_at = '2020-01-01 00:00:00.000'");
}

describe.for([USUAL])(
  'serve on $name, told of a delete while an old page is on its way',
  { timeout: 120_000 },
  (database) => {
    const SMALL = { generate: { content: 100, images: 4, analytics: 4 } };
    const SLOW_PAGE = { fault: 'latency', ms: 1_500, resource: 'content', page: 1, times: 1 } as const;

    it.for(['first', 'later'] as const)('F084 in a %s walk: it is not live once that walk is over', async (which) => {
      const stage = await servingStage({
        database,
        isInside: true,
        sandbox: SMALL,
        source: { schedule: { incremental: null, full: '0 * * * *', jitter: '0s' } },
      });
      if (which === 'later') await copiedLongAgo(stage);
      const [first] = stage.sandbox.store.list('content');
      const id = first?.id ?? '';
      stage.sandbox.requests.clear();
      stage.sandbox.faults.add(SLOW_PAGE);
      const began = Date.now();
      const serving = await stage.serve();
      await stage.subscribe(serving);
      const { requests } = stage.sandbox;
      await until('listed', () => requests.entries().some(({ resource }) => resource === 'content'));
      // The page is cut already, and is on its way for more than a second.
      await delay(50);
      stage.sandbox.store.remove('content', id);
      await until('read alone', () => requests.entries().some(({ path }) => path === `/v1/content/${id}`));
      await until('walked', async () => {
        const { last_full_at, running } = resourceIn(await serving.status(), 'content');
        return (running === null && (last_full_at ?? 0) >= began) || { last_full_at, running };
      });
      await stage.settled();
      expect(await liveRows(stage, id)).toEqual([]);
      expect(await serving.stop()).toMatchObject({ code: 0 });
    });
  },
);
