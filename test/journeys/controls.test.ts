import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eitherDatabase } from '../support/databases.ts';
import { longOrShort } from '../support/length.ts';
import {
  controlsIn,
  eventBody,
  openServingStage,
  resourceIn,
  type Serving,
  type ServingStage,
  sourceIn,
  until,
} from '../support/serving.ts';

const EITHER = eitherDatabase(import.meta.filename);

const RECORDS = { content: longOrShort(2_000, 1_000), images: 40, analytics: 40 };

/** Deliveries that come while a resource is paused. */
const STORM = longOrShort(200, 40);

/** What a command has printed as JSON, one object per line. */
function told(stdout: string): Record<string, unknown>[] {
  return stdout
    .trim()
    .split('\n')
    .map((line): Record<string, unknown> => JSON.parse(line));
}

describe.for(EITHER)('a serve on $name that is told what to do', { timeout: 120_000 }, (database) => {
  let stage: ServingStage;
  let serving: Serving;
  const runs = (resource: string): Promise<{ mode: string; status: string; pages: number }[]> =>
    stage.all<{ mode: string; status: string; pages: number }>(
      'SELECT mode, status, pages FROM _sync_runs WHERE resource = ? ORDER BY started_at, run_id',
      resource,
    );
  const resource = async (name: string) => resourceIn(await serving.status(), name);

  beforeAll(async () => {
    stage = await openServingStage({ database, sandbox: { generate: RECORDS, rate: 3, burst: 3 }, isInside: true });
    serving = await stage.serve();
  });
  afterAll(() => stage.close());

  it('pauses a backfill under way at the page in hand, across a restart, and goes on where it was', async () => {
    await until('under way', async () => ((await resource('content')).running?.pages ?? 0) > 2);
    const paused = await stage.run('pause', 'content', '--json');
    expect(paused).toMatchObject({ code: 0, stderr: '' });
    expect(told(paused.stdout)).toMatchObject([{ source: 'blog', done: true }]);
    await until(
      'stopped',
      async () => (await runs('content')).at(-1)?.status === 'interrupted' || (await runs('content')),
    );
    const { pages = 0 } = (await runs('content')).at(-1) ?? {};
    expect(pages).toBeLessThan(RECORDS.content / 40);
    stage.sandbox.setRate({ rate: 500, burst: 500 });
    const refused = await stage.run('sync', 'content');
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain('"code":"paused"');
    expect(refused.stderr).toContain('content-sync control resume --source blog content');
    expect(await serving.stop()).toMatchObject({ code: 0 });
    serving = await stage.serve();
    await until('others whole', async () => (await resource('images')).last_full_at !== null);
    const shown = await resource('content');
    expect(shown).toMatchObject({ running: null, schedule: { next_at: null, overdue_at: null } });
    expect(shown.paused?.by).toMatch(/pid \d+ \(command\)/);
    expect((await serving.status()).attention.map(({ command }) => command)).toContain(
      'content-sync control resume --source blog content',
    );
    expect(await runs('content')).toHaveLength(1);
    expect(await stage.run('resume')).toMatchObject({ code: 0, stderr: '' });
    await stage.fresh(serving);
    const after = await runs('content');
    expect(after).toHaveLength(2);
    expect((after[0]?.pages ?? 0) + (after[1]?.pages ?? 0)).toBeLessThanOrEqual(RECORDS.content / 40 + 2);
    await stage.settled();
  });

  it('walks when it is asked to, and the command follows it to its end', async () => {
    stage.write('content', 'told-1', { title: 'Nobody told of it' });
    const one = await stage.run('sync', 'content', '--json');
    expect(one).toMatchObject({ code: 0 });
    expect(told(one.stdout)).toMatchObject([
      {
        source: 'blog',
        status: 'ok',
        resources: [{ resource: 'content', mode: 'incremental', status: 'ok', inserted: 1 }],
      },
    ]);
    expect(one.stderr).toContain('scan ok');
    const all = await stage.run('backfill', '--json');
    expect(all).toMatchObject({ code: 0 });
    const [report] = told(all.stdout);
    expect(report?.['resources']).toMatchObject([{ mode: 'full' }, { mode: 'full' }, { mode: 'full' }]);
    expect(controlsIn(serving).filter(({ control }) => control.action === 'sync')).toHaveLength(4);
  });

  it('keeps webhooks for a paused resource, and works on them once it is resumed', async () => {
    expect(await stage.run('pause', 'content')).toMatchObject({ code: 0 });
    // A running process sees it within a second.
    await delay(1_500);
    const requests = stage.sandbox.requests.entries().length;
    stage.write('images', 'img_1', { width: 5 });
    stage.write('content', 'told-2', { title: 'Written while it was paused' });
    for (let number = 0; number < STORM; number += 1) {
      const body = eventBody({ resource: 'content', id: number % 2 === 0 ? 'told-1' : 'told-2' });
      expect(await serving.deliver({ id: `storm-${number}`, body })).toBe(202);
    }
    expect(await serving.deliver({ id: 'image', body: eventBody({ resource: 'images', id: 'img_1' }) })).toBe(202);
    await until(
      'the image',
      async () => (await stage.one("SELECT 1 FROM images WHERE id = 'img_1' AND width = 5")) !== undefined,
    );
    // Its delivery is noted as done just after its row is written.
    await until('all but the image', async () => {
      const waiting = sourceIn(await serving.status()).webhooks?.waiting;
      return waiting === STORM || { waiting };
    });
    const asked = stage.sandbox.requests.entries().slice(requests);
    expect(asked.filter((each) => each.resource === 'content')).toEqual([]);
    expect(await stage.run('resume', 'content')).toMatchObject({ code: 0 });
    await stage.settled();
  });

  it('replays deliveries and decides of deletes beside the running process, which takes the other requests', async () => {
    const [first] = await stage.inbox.all('SELECT seq FROM _sync_deliveries LIMIT 1');
    const seq = Reflect.get(first ?? {}, 'seq');
    const replayed = await stage.run('deliveries', 'replay', String(seq), '--json');
    expect(replayed).toMatchObject({ code: 0, stderr: '' });
    expect(told(replayed.stdout)).toEqual([{ source: 'blog', replayed: 1 }]);
    expect(await stage.run('deliveries', 'replay', 'nowhere')).toMatchObject({ code: 2 });
    expect(await stage.run('deletes', 'confirm', '--json')).toMatchObject({ code: 0, stderr: '' });
    expect(await stage.run('deletes', 'discard', '--id', 'nothing')).toMatchObject({ code: 2 });
    expect(await stage.run('retry', 'images')).toMatchObject({ code: 0, stderr: '' });
    const actions = controlsIn(serving).map(({ control }) => control.action);
    for (const action of ['sync', 'retry']) expect(actions).toContain(action);
    for (const { by } of controlsIn(serving)) expect(by).toMatch(/pid \d+/);
  });
});
