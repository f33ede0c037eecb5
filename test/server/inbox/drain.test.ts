import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { DeferredError, SyncError } from '../../../src/model/errors.ts';
import type { Sandbox } from '../../sandbox/service/sandbox.ts';
import { differences } from '../../support/compare-copy.ts';
import { draining, type Draining, type DrainingOptions, eventFor } from '../../support/draining.ts';
import { hurriedClock } from '../../support/hurried-clock.ts';
import { journey, type Journey, type JourneyOptions } from '../../support/journey.ts';
import { longOrShort } from '../../support/length.ts';
import { changeRecord, storm } from './storm.ts';

/** How often a condition is looked at, and how long it is waited for on a busy machine. */
const SOON = { interval: 2, timeout: 60_000 };

const CONTENT_ONLY = { sandbox: { generate: { content: 20 } }, source: { resources: ['content'] } };
const MANY = { ...CONTENT_ONLY, sandbox: { generate: { content: 60 } } };
/** Rounds of a storm, and deliveries of each. */
const [ROUNDS, PER_ROUND] = longOrShort([20, 75], [10, 50]);
/** A second of theirs is a tenth of ours. */
const SPEED = 10;

interface Stage extends Draining {
  journey: Journey;
  sandbox: Sandbox;
  ids: string[];
}

/** A copied source with its drain. */
async function staged(options: JourneyOptions = CONTENT_ONLY, changed: DrainingOptions = {}): Promise<Stage> {
  const made = await journey(options);
  await made.run('backfill');
  const drained = await draining(made, { clock: hurriedClock(SPEED), ...changed });
  const ids = [...made.sandbox.store.list('content')].map(({ id }) => id);
  return { ...drained, journey: made, sandbox: made.sandbox, ids };
}

async function expectEqual({ journey: made, sandbox }: Stage): Promise<void> {
  expect(await made.read((db) => differences(db, sandbox.store, { resources: ['content'] }))).toEqual([]);
}

function itemReads({ sandbox }: Stage, id = ''): { at: number }[] {
  return sandbox.requests.entries().filter(({ path }) => path.startsWith(`/v1/content/${id}`));
}

async function failsForOne(_: string, key: string): Promise<'loaded'> {
  if (key === 'bad') throw new TypeError('a bug');
  return 'loaded';
}

async function refusedWithSecret(): Promise<'loaded'> {
  throw new SyncError('bad_request', 'a 400 that says s3cret-token', { recovery: 'stop' });
}

/** Of all walks of the resource, sorted. */
async function modes({ journey: made }: Stage): Promise<unknown[]> {
  return made.read((db) =>
    db.prepare("SELECT mode FROM _sync_runs WHERE resource = 'content' ORDER BY mode").pluck().all(),
  );
}

function outcomes({ events }: Stage): string[] {
  return events.map(({ outcome }) => outcome);
}

describe('from a stored delivery to a row', () => {
  it('brings changes, creations and deletes in, and tells the delay of each', async () => {
    const stage = await staged();
    const [changed = '', removed = ''] = stage.ids;
    changeRecord(stage.sandbox, changed);
    changeRecord(stage.sandbox, 'brand-new');
    stage.sandbox.store.remove('content', removed);
    await stage.deliver(
      eventFor('content', changed),
      eventFor('content', 'brand-new', 'created'),
      eventFor('content', removed, 'deleted'),
    );
    await stage.settled();
    await expectEqual(stage);
    expect(outcomes(stage).toSorted()).toEqual(['deleted', 'loaded', 'loaded']);
    for (const event of stage.events) expect(event).toMatchObject({ resource: 'content', deliveries: 1 });
    const rows = await stage.rows();
    expect(rows.map(({ state, kind, record_id }) => [state, kind, record_id])).toEqual([
      ['done', 'content.deleted', removed],
      ['done', 'content.created', 'brand-new'],
      ['done', 'content.updated', changed],
    ]);
  });

  it('F175 brings both of two changes within one second, and a duplicate costs nothing', async () => {
    const stage = await staged();
    const [id = ''] = stage.ids;
    const first = eventFor('content', id, 'updated', changeRecord(stage.sandbox, id));
    await stage.deliver(first, first);
    await stage.settled();
    await expectEqual(stage);
    const second = eventFor('content', id, 'updated', changeRecord(stage.sandbox, id));
    await stage.deliver(second, first, second);
    await stage.settled();
    await expectEqual(stage);
    expect(itemReads(stage, id).length).toBeLessThanOrEqual(2);
  });
});

describe('deliveries that name no record', () => {
  it('are served by one incremental walk that began after them', async () => {
    const stage = await staged();
    for (const id of stage.ids.slice(0, 5)) changeRecord(stage.sandbox, id);
    const before = stage.sandbox.requests.total;
    await stage.deliver(
      ...Array.from({ length: 50 }, () => ({ type: 'content.updated', data: { resource: 'content' } })),
    );
    await stage.settled();
    await expectEqual(stage);
    expect(stage.sandbox.requests.total - before).toBe(1);
    expect(stage.events).toEqual([
      { resource: 'content', outcome: 'scanned', deliveries: 50, delayMs: expect.any(Number) },
    ]);
  });

  it('need another walk where they come while one is under way', async () => {
    const walks: number[] = [];
    const gate = Promise.withResolvers<void>();
    const walk = async (): Promise<void> => {
      walks.push(walks.length);
      if (walks.length === 1) await gate.promise;
    };
    const stage = await staged(CONTENT_ONLY, { scan: walk });
    const nameless = { type: 'content.updated', data: { resource: 'content' } };
    await stage.deliver(nameless);
    await vi.waitUntil(() => walks.length !== 0, SOON);
    await stage.deliver(nameless, nameless);
    gate.resolve();
    await stage.settled();
    expect(walks).toEqual([0, 1]);
    expect(stage.events.map(({ deliveries }) => deliveries)).toEqual([1, 2]);
  });

  it('wait while walks fail, and never die of it', async () => {
    let left = 12;
    const walk = async (): Promise<void> => {
      left -= 1;
      if (left > 0) throw new Error('not today');
    };
    const stage = await staged(CONTENT_ONLY, { scan: walk, attempts: 2, clock: hurriedClock(2_000) });
    await stage.deliver({ type: 'content.updated', data: { resource: 'content' } });
    await stage.settled();
    expect((await stage.rows())[0]).toMatchObject({ state: 'done', attempts: 0 });
    expect(stage.errors).toHaveLength(11);
  });

  it('stand in for records that cannot be read alone', async () => {
    const stage = await staged({ ...CONTENT_ONLY, profile: { resources: { content: { item: null } } } });
    const [changed = '', removed = ''] = stage.ids;
    changeRecord(stage.sandbox, changed);
    stage.sandbox.store.remove('content', removed);
    await stage.deliver(eventFor('content', changed), eventFor('content', removed, 'deleted'));
    await stage.settled();
    // The delete is done after a full scan, and not by the one that only showed what has changed.
    expect(outcomes(stage)).toEqual(['scanned', 'scanned']);
    expect(await modes(stage)).toEqual(['full', 'full', 'incremental']);
    expect(itemReads(stage)).toEqual([]);
    expect(await stage.journey.read((db) => db.prepare('SELECT record_id, reason FROM _sync_suspects').all())).toEqual([
      { record_id: removed, reason: 'event' },
    ]);
  });

  it('and say that one is gone are done after one whole walk that began after them', async () => {
    const stage = await staged();
    const [removed = ''] = stage.ids;
    stage.sandbox.store.remove('content', removed);
    const nameless = { type: 'content.deleted', data: { resource: 'content' } };
    await stage.deliver(nameless, nameless, {
      type: 'content.deleted',
      data: { resource: 'content', id: { no: 'id' } },
    });
    await stage.settled();
    expect(outcomes(stage)).toEqual(['scanned']);
    expect(await modes(stage)).toEqual(['full', 'full']);
    await expectEqual(stage);
  });
});

describe('many deliveries', () => {
  it(`F176 ${ROUNDS * PER_ROUND} for 50 records in a storm make at most 1.1 reads per record and second, and the copy is right`, async () => {
    const stage = await staged(MANY);
    const ids = stage.ids.slice(0, 50);
    const weather = await storm(stage, stage.sandbox, ids, { rounds: ROUNDS, perRound: PER_ROUND, everyMs: 50 });
    await expectEqual(stage);
    expect(weather.readsPerSecond / SPEED).toBeLessThanOrEqual(1.1);
    expect(stage.errors).toEqual([]);
    expect(stage.events.reduce((sum, { deliveries }) => sum + deliveries, 0)).toBe(ROUNDS * PER_ROUND);
    expect(stage.drain.counts()).toMatchObject({ inProgress: 0 });
  });

  it('for one resource leave room for the others', async () => {
    const sandbox = { generate: { content: 60, images: 3 } };
    const hold = Promise.withResolvers<'loaded'>();
    const read: string[] = [];
    const refetch = async (resource: string, key: string): Promise<'loaded'> => {
      read.push(resource);
      return resource === 'content' && key !== '' ? hold.promise : 'loaded';
    };
    const stage = await staged({ sandbox, source: { resources: ['content', 'images'] } }, { refetch });
    await stage.deliver(...stage.ids.map((id) => eventFor('content', id)));
    await vi.waitUntil(() => read.length >= 3, SOON);
    await stage.deliver(eventFor('images', 'x'), eventFor('images', 'y'));
    await vi.waitUntil(() => stage.events.length >= 2, SOON);
    expect(read).toEqual(['content', 'content', 'content', 'images', 'images']);
    hold.resolve('loaded');
    await stage.settled();
  });
});

describe('when something is wrong', () => {
  it('F152 an exception over one record never stops the others', async () => {
    const stage = await staged(CONTENT_ONLY, { refetch: failsForOne, attempts: 3, clock: hurriedClock(1_000) });
    await stage.deliver(eventFor('content', 'bad'), eventFor('content', 'good'));
    await stage.settled();
    const [good, bad] = await stage.rows();
    expect(good).toMatchObject({ state: 'done', attempts: 0, reason: null });
    expect(bad).toMatchObject({ state: 'dead', attempts: 3, reason: 'a bug [bug]', record_id: 'bad' });
    expect(stage.errors).toHaveLength(3);
    expect(outcomes(stage).filter((outcome) => outcome !== 'loaded')).toEqual(['deferred', 'deferred', 'dead']);
  });

  it('a service that is down costs no attempt, and when it is back the rows follow', async () => {
    const profile = { http: { attempts: 1 } };
    const stage = await staged({ ...CONTENT_ONLY, profile }, { attempts: 1, clock: hurriedClock(100) });
    const down = stage.sandbox.faults.add({ fault: 'status', status: 503, resource: 'content' });
    const ids = stage.ids.slice(0, 20);
    for (const id of ids) changeRecord(stage.sandbox, id);
    await stage.deliver(...ids.map((id) => eventFor('content', id)));
    await vi.waitUntil(() => stage.errors.length >= 3, SOON);
    const asked = stage.sandbox.requests.total;
    expect((await stage.rows()).every(({ state, attempts }) => state === 'waiting' && attempts === 0)).toBe(true);
    down.remove();
    await stage.settled();
    await expectEqual(stage);
    expect((await stage.rows()).every(({ state }) => state === 'done')).toBe(true);
    // It is asked now and then, not for each of the twenty.
    expect(asked).toBeLessThan(80);
  });

  it('a service that asks for a long wait is left alone until then', async () => {
    let until = 0;
    const begun = Date.now();
    const clock = hurriedClock(1_000);
    const refetch = async (): Promise<'loaded'> => {
      if (until !== 0) return 'loaded';
      until = clock.now() + 400_000;
      throw new DeferredError('later', until);
    };
    const stage = await staged(CONTENT_ONLY, { refetch, clock, attempts: 1 });
    await stage.deliver(eventFor('content', 'a'));
    await stage.settled();
    expect(Date.now() - begun).toBeGreaterThanOrEqual(400);
    expect((await stage.rows())[0]).toMatchObject({ state: 'done', attempts: 0 });
  });

  it('F133 what another process owns is left as it is in the inbox, for that one to take', async () => {
    let isOwned = true;
    const refetch = async (): Promise<'loaded'> => {
      if (isOwned) throw new SyncError('lease_held', 'another process is at work', { recovery: 'stop' });
      return 'loaded';
    };
    const stage = await staged(CONTENT_ONLY, { refetch, attempts: 1, clock: hurriedClock(100) });
    await stage.deliver(eventFor('content', 'a'), eventFor('content', 'b'));
    await vi.waitUntil(() => stage.errors.length >= 3, SOON);
    for (const row of await stage.rows()) expect(row).toMatchObject({ state: 'waiting', attempts: 0, due_at: null });
    isOwned = false;
    await stage.settled();
    expect((await stage.rows()).map(({ state }) => state)).toEqual(['done', 'done']);
  });

  it('what belongs to a paused resource outlasts the pause, however long, and is processed soon after it', async () => {
    let isPaused = true;
    const refusePaused = (): void => {
      if (isPaused) throw new SyncError('paused', 'content is paused', { recovery: 'stop' });
    };
    const refetch = async (): Promise<'loaded'> => {
      refusePaused();
      return 'loaded';
    };
    const clock = hurriedClock(20);
    const scan = async (): Promise<void> => refusePaused();
    const stage = await staged(CONTENT_ONLY, { refetch, scan, clock, keepMs: 1 });
    const nameless = { type: 'content.deleted', data: { resource: 'content' } };
    await stage.deliver(eventFor('content', 'a'), nameless);
    await vi.waitUntil(() => stage.errors.length >= 2, SOON);
    for (const row of await stage.rows()) expect(row).toMatchObject({ state: 'waiting', attempts: 0, due_at: null });
    const resumed = clock.now();
    isPaused = false;
    await stage.settled();
    // A full scan that was not begun needs no pause of ten minutes before the next one.
    expect(clock.now() - resumed).toBeLessThan(300_000);
    expect((await stage.rows()).map(({ state }) => state)).toEqual(['done', 'done']);
  });

  it('F133 what does not concern this process is left without a question', async () => {
    let isResponsible = false;
    const read: string[] = [];
    const refetch = async (_: string, key: string): Promise<'loaded'> => {
      read.push(key);
      return 'loaded';
    };
    const stage = await staged(CONTENT_ONLY, { refetch, isResponsible: () => isResponsible, clock: hurriedClock(100) });
    await stage.deliver(eventFor('content', 'a'), eventFor('unknown', 'b'));
    await vi.waitUntil(() => stage.drain.counts().skipped >= 2, SOON);
    for (const row of await stage.rows()) expect(row).toMatchObject({ state: 'waiting', attempts: 0, due_at: null });
    expect(read).toEqual([]);
    isResponsible = true;
    await stage.settled();
    expect(read).toEqual(['a']);
    expect((await stage.rows()).map(({ state }) => state).toSorted()).toEqual(['done', 'ignored']);
  });

  it('what has ended is stored behind its rows, and without secrets', async () => {
    const steps: string[] = [];
    const persist = async (): Promise<void> => void steps.push('persist');
    const stage = await staged(CONTENT_ONLY, {
      attempts: 1,
      refetch: refusedWithSecret,
      secrets: ['s3cret-token'],
      persist,
    });
    const settle = stage.inbox.settle.bind(stage.inbox);
    stage.inbox.settle = async (settlements) => {
      steps.push('settle');
      await settle(settlements);
    };
    await stage.deliver(eventFor('content', 's3cret-token'));
    await stage.settled();
    expect(steps).toEqual(['persist', 'settle']);
    const [row] = await stage.rows();
    expect(row).toMatchObject({ state: 'dead', kind: 'content.updated' });
    expect([row?.reason, row?.record_id].join()).not.toContain('s3cret-token');
  });

  it('a replica that lags behind is asked again until it has caught up', async () => {
    const stage = await staged(CONTENT_ONLY, { clock: hurriedClock(50) });
    const [id = ''] = stage.ids;
    const old = stage.sandbox.store.get('content', id)?.text ?? '';
    const updated = changeRecord(stage.sandbox, id);
    const lag = stage.sandbox.faults.add({ fault: 'body', text: old, path: `/content/${id}` });
    await stage.deliver(eventFor('content', id, 'updated', updated));
    await vi.waitUntil(() => stage.events.length >= 2, SOON);
    expect((await stage.rows())[0]).toMatchObject({ state: 'waiting', reason: expect.stringContaining('[behind]') });
    lag.remove();
    await stage.settled();
    await expectEqual(stage);
    expect(outcomes(stage).at(-1)).toBe('loaded');
  });
});

describe('stopping and starting', () => {
  it('F148 a restart takes up what was not settled, however the end came', async () => {
    const made = await journey({ ...CONTENT_ONLY, sandbox: { generate: { content: 24 } } });
    await made.run('backfill');
    const ids = [...made.sandbox.store.list('content')].map(({ id }) => id);
    for (const id of ids) changeRecord(made.sandbox, id);
    made.sandbox.faults.add({ fault: 'latency', ms: 30, resource: 'content' });
    const first = await draining(made, { concurrency: 1 });
    await first.deliver(...ids.map((id) => eventFor('content', id)));
    await delay(50);
    await first.close();
    for (let round = 0; round < 3; round++) {
      const stage = await draining(made, { concurrency: 1 });
      await delay(50);
      await stage.close();
    }
    const last = await draining(made);
    expect((await last.rows()).some(({ state }) => state === 'waiting')).toBe(true);
    await last.settled();
    expect(await made.read((db) => differences(db, made.sandbox.store, { resources: ['content'] }))).toEqual([]);
    expect((await last.rows()).every(({ state, attempts }) => state === 'done' && attempts === 0)).toBe(true);
  });

  it('does not wait for ever for what hangs', async () => {
    let reads = 0;
    const refetch = (): Promise<never> => {
      reads += 1;
      return new Promise(() => undefined);
    };
    const stage = await staged(CONTENT_ONLY, { refetch, clock: hurriedClock(100) });
    await stage.deliver(eventFor('content', 'a'));
    await vi.waitUntil(() => reads > 0, SOON);
    await stage.drain.stop();
    expect((await stage.rows())[0]).toMatchObject({ state: 'waiting', attempts: 0, due_at: null });
  });
});
