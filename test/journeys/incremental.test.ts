import { describe, expect, it } from 'vitest';
import type { Clock } from '../../src/model/clock.ts';
import type { ResourceReport } from '../../src/sync/report.ts';
import { differences } from '../support/compare-copy.ts';
import { dumpCopy } from '../support/dump-copy.ts';
import { pushedClock } from '../support/hurried-clock.ts';
import { DATABASES, USUAL } from '../support/databases.ts';
import { longOrShort, sampled } from '../support/length.ts';
import { journey, type Journey, type JourneyOptions } from '../support/journey.ts';
import type { SyncCommand } from '../../src/sync/plan.ts';

const MINUTE = 60_000;
/** Records of one moment that come at a time, and those of a bulk update: more than a page holds. */
const [TIED, BULK] = [longOrShort(250, 90), longOrShort(300, 100)];
const ONLY_CONTENT = { resources: { content: { page: { size: 40 } } } };

interface Written {
  id: string;
  version: number;
}

/** One resource, empty at first, on a service whose time the test puts forward, and ours with it. */
async function contentStage(options: JourneyOptions = {}) {
  const clock = pushedClock('2026-03-01T12:00:00Z');
  const stage = await journey({
    profile: ONLY_CONTENT,
    source: { resources: ['content'] },
    ...options,
    sandbox: { generate: { content: 0 }, clock, ...options.sandbox },
  });
  const put = (id: string, fields: object = {}): void =>
    stage.sandbox.store.put('content', { id, title: `Title of ${id}`, updated_at: iso(clock.now()), ...fields });
  const run = (command: SyncCommand) => {
    // The service tells its time in whole seconds: what was put in this one would count as put after the walk began.
    clock.push(1_000);
    return runOnce(stage, command, clock);
  };
  return { stage, clock, put, run };
}

function iso(epochMs: number): string {
  return new Date(epochMs).toISOString();
}

async function runOnce(
  stage: Journey,
  command: SyncCommand,
  clock: Clock,
): Promise<ResourceReport & { asked: number }> {
  stage.sandbox.requests.clear();
  const report = await stage.run(command, { clock });
  const [content] = report.resources;
  expect(report.status).toBe('ok');
  if (content === undefined) throw new Error('no resource was run');
  return { ...content, asked: stage.sandbox.requests.total };
}

function unlike(stage: Journey): Promise<string[]> {
  return stage.read((db) => differences(db, stage.sandbox.store, { resources: ['content'] }));
}

function written(stage: Journey, after: number): Promise<Written[]> {
  return stage.all<Written>('SELECT id, _version AS version FROM content WHERE _version > ? ORDER BY id', after);
}

function cursorOf(stage: Journey): Promise<string | undefined> {
  return stage.value<string>('SELECT cursor FROM _sync_checkpoints');
}

describe.for(DATABASES)('a run that finds nothing new on $name', (database) => {
  it('writes nothing: a second backfill and a sync leave every row, version and time as they were', async () => {
    const stage = await journey({ database, sandbox: { generate: { content: 120, images: 20, analytics: 120 } } });
    await stage.run('backfill');
    expect(await stage.read((db) => differences(db, stage.sandbox.store))).toEqual([]);
    const before = await stage.read(dumpCopy);
    const requests: number[] = [];
    for (const command of ['backfill', 'sync', 'backfill'] as const) {
      stage.sandbox.requests.clear();
      const { status, resources } = await stage.run(command);
      expect(status).toBe('ok');
      requests.push(stage.sandbox.requests.total);
      expect(resources.map(({ inserted, updated }) => inserted + updated)).toEqual([0, 0, 0]);
      expect(await stage.read(dumpCopy)).toEqual(before);
    }
    expect(requests[1]).toBe(3);
  });
});

describe.for([USUAL])('a run that finds nothing new on $name', (database) => {
  it('F107 takes another order of keys and other spacing for no change, in all three kinds of history', async () => {
    for (const history of ['all', 'latest', 'none']) {
      const { stage, put, run } = await contentStage({ database, profile: { resources: { content: { history } } } });
      put('a', { seo: { x: 1, y: [1, { b: 2, c: 3 }] }, n: 1.5 });
      await run('backfill');
      const before = await stage.read(dumpCopy);
      const { updated_at: at } = JSON.parse(stage.sandbox.store.get('content', 'a')?.text ?? '');
      const text = `{"updated_at":"${at}", "n" : 1.5,\n "seo":{"y":[1,{"c":3,"b":2}],"x":1},"title":"Title of a","id":"a"}`;
      stage.sandbox.store.put('content', text);
      for (const command of ['sync', 'backfill'] as const) {
        expect(await run(command)).toMatchObject({ inserted: 0, updated: 0, unchanged: 1 });
      }
      expect(await stage.read(dumpCopy)).toEqual(before);
    }
  });
});

describe('ties and late commits', () => {
  it(`F061 finds ${2 * TIED} records of one moment, more than a page holds, over pages and runs`, async () => {
    const { stage, clock, put, run } = await contentStage();
    const updated_at = iso(clock.now());
    for (let index = 0; index < TIED; index += 1) put(`r${index}`, { updated_at });
    expect(await run('backfill')).toMatchObject({ inserted: TIED, asked: Math.ceil(TIED / 40) });
    for (let index = TIED; index < 2 * TIED; index += 1) put(`r${index}`, { updated_at });
    expect(await run('sync')).toMatchObject({ mode: 'incremental', inserted: TIED, updated: 0 });
    expect(await unlike(stage)).toEqual([]);
    expect(await written(stage, 1)).toEqual([]);
  });

  it('F062 does not fetch a bulk update of one moment again for ever', async () => {
    const { stage, clock, put, run } = await contentStage();
    for (let index = 0; index < BULK; index += 1) put(`r${index}`);
    await run('backfill');
    clock.push(60 * MINUTE);
    const updated_at = iso(clock.now());
    for (let index = 0; index < BULK; index += 1) put(`r${index}`, { updated_at, bulk: true });
    expect(await run('sync')).toMatchObject({ updated: BULK });
    clock.push(11 * MINUTE);
    // The look-back has passed since they were first seen: once more, to be sure, and then no more.
    expect(await run('sync')).toMatchObject({ updated: 0 });
    clock.push(MINUTE);
    expect(await run('sync')).toMatchObject({ records: 0, asked: 1 });
    put('r5', { after: true });
    expect(await run('sync')).toMatchObject({ updated: 1, records: 1 });
    expect(await unlike(stage)).toEqual([]);
  });

  it('F063 finds a record that was committed late, with a time before the cursor', async () => {
    const { stage, clock, put, run } = await contentStage();
    put('a');
    clock.push(5 * MINUTE);
    put('b');
    await run('backfill');
    put('late', { updated_at: iso(clock.now() - 90_000) });
    expect(await run('sync')).toMatchObject({ inserted: 1 });
    clock.push(60 * MINUTE);
    put('c');
    await run('sync');
    put('late-again', { updated_at: iso(clock.now() - 9 * MINUTE) });
    expect(await run('sync')).toMatchObject({ inserted: 1 });
    expect(await unlike(stage)).toEqual([]);
  });
});

describe('clocks', () => {
  it.for(sampled([10 * MINUTE, -10 * MINUTE, 26 * 60 * MINUTE, -26 * 60 * MINUTE], 3))(
    'F064 follows the clock of the service, which differs from ours by %d ms',
    async (clockSkew) => {
      const { stage, clock, put, run } = await contentStage({ sandbox: { clockSkew } });
      const stamp = (): object => ({ updated_at: iso(clock.now() + clockSkew) });
      put('a', stamp());
      await run('backfill');
      for (let index = 0; index < 3; index += 1) {
        clock.push(20 * MINUTE);
        put(`r${index}`, stamp());
        put('a', { ...stamp(), index });
        expect(await run('sync')).toMatchObject({ mode: 'incremental', inserted: 1, updated: 1 });
        expect(await cursorOf(stage)).toBe(JSON.parse(stage.sandbox.store.get('content', 'a')?.text ?? '').updated_at);
      }
      expect(await unlike(stage)).toEqual([]);
    },
  );

  it('F074 brings in what changes after our own clock was put back by an hour', async () => {
    const { stage, clock, put, run } = await contentStage();
    const ahead = pushedClock(iso(clock.now() + 60 * MINUTE));
    put('a', { title: 'first' });
    await stage.run('backfill', { clock: ahead });
    clock.push(MINUTE);
    put('a', { title: 'second' });
    expect(await run('sync')).toMatchObject({ updated: 1 });
    clock.push(20 * MINUTE);
    put('a', { title: 'third' });
    expect(await run('sync')).toMatchObject({ updated: 1 });
    expect(await unlike(stage)).toEqual([]);
    expect(await written(stage, 0)).toEqual([{ id: 'a', version: 3 }]);
  });

  it('F066 is not dragged along by a record from the year 9999', async () => {
    const { stage, clock, put, run } = await contentStage();
    put('far', { updated_at: '9999-12-31T23:59:59Z' });
    put('a');
    await run('backfill');
    expect(await cursorOf(stage)).toBe(JSON.parse(stage.sandbox.store.get('content', 'a')?.text ?? '').updated_at);
    clock.push(30 * MINUTE);
    put('b');
    expect(await run('sync')).toMatchObject({ inserted: 1, updated: 0 });
    expect(await cursorOf(stage)).toMatch(/^2026-03-01T12:30/);
    expect(await unlike(stage)).toEqual([]);
  });

  it('F068 compares times as instants, however each is written, and keeps what was sent', async () => {
    const { stage, clock, put, run } = await contentStage();
    const forms: ((at: number) => unknown)[] = [
      iso,
      (at) => iso(at + 120 * MINUTE).replace('Z', '+02:00'),
      (at) => iso(at).replace('Z', ''),
      (at) => iso(at).replace(/\.\d+Z/, 'Z'),
      (at) => iso(at).replace('Z', '456Z'),
      (at) => iso(at - 330 * MINUTE).replace('Z', '-05:30'),
    ];
    forms.forEach((form, index) => put(`f${index}`, { updated_at: form(clock.now()) }));
    await run('backfill');
    for (const form of forms) {
      clock.push(15 * MINUTE);
      const updated_at = form(clock.now());
      put('moving', { updated_at });
      expect(await run('sync')).toMatchObject({ mode: 'incremental' });
      expect(await cursorOf(stage)).toBe(updated_at);
      expect(await unlike(stage)).toEqual([]);
    }
  });

  it('F067 copies records whose time is missing, null or no time at all, and walks fully while they are there', async () => {
    const { stage, clock, put, run } = await contentStage();
    put('none', { updated_at: undefined });
    put('null', { updated_at: null });
    put('word', { updated_at: 'yesterday' });
    put('object', { updated_at: { at: 1 } });
    put('a');
    await run('backfill');
    expect(await stage.value('SELECT count(*) FROM content')).toBe(5);
    clock.push(20 * MINUTE);
    put('b');
    put('null', { updated_at: null, title: 'changed' });
    const report = await run('sync');
    expect(report).toMatchObject({ mode: 'full', inserted: 1, updated: 1 });
    expect(report.warnings).toMatchObject([
      { code: 'records_without_updated', message: expect.stringMatching(/^4 records/) },
    ]);
    expect(await cursorOf(stage)).toBe(JSON.parse(stage.sandbox.store.get('content', 'b')?.text ?? '').updated_at);
  });
});
