import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Sandbox, startSandbox } from '../sandbox/service/sandbox.ts';
import { SQLITE } from '../support/databases.ts';
import { eventBody, openServingStage, resourceIn, type Serving, type ServingStage, until } from '../support/serving.ts';

const FEW = { generate: { content: 80, images: 20, analytics: 40 } };
/** A service that fails is given up soon, so that what follows is seen soon. */
const IMPATIENT = { http: { attempts: 2, headers_timeout: '2s', timeout: '2s' } };

describe('serve with sources whose files cannot be worked on', { timeout: 120_000 }, () => {
  let stage: ServingStage;
  let serving: Serving;
  let down: Sandbox;
  const folderOf = (source: string): string => path.dirname(stage.file(source));

  beforeAll(async () => {
    down = await startSandbox({ ...FEW, fault: [{ fault: 'status', status: 503 }] });
    const sources = {
      good: {},
      down: { base_url: down.url, auth: { type: 'api_key', key: down.apiKey } },
      locked_out: { auth: { type: 'api_key', key: 'not-the-key' } },
      nowhere: {},
      damaged: {},
      silent: { webhook: undefined },
    };
    const warehouse = '{source}/copy.db';
    stage = await openServingStage({
      sandbox: FEW,
      profile: IMPATIENT,
      sources,
      database: SQLITE,
      warehouse,
      isInside: true,
    });
    // A file where a folder should be: what a disk that is not mounted looks like, also to root.
    writeFileSync(folderOf('nowhere'), 'not a folder');
    mkdirSync(folderOf('damaged'));
    for (const file of [stage.file('damaged'), stage.inboxFile('damaged')])
      writeFileSync(file, 'no database'.repeat(1_000));
    stage.sandbox.faults.add({ fault: 'status', status: 503, resource: 'images', method: 'GET' });
    serving = await stage.serve();
  });
  afterAll(async () => {
    await stage.close();
    await down.close();
  });

  it('F152 keeps the others fresh, and the receiver answers', async () => {
    await stage.subscribe(serving, ['*'], 'good');
    const walked = (name: string): Promise<boolean> =>
      serving.status().then((status) => resourceIn(status, name, 'good').last_full_at !== null);
    await until('copied', async () => (await walked('content')) && walked('analytics'));
    stage.write('content', 'new', { title: 'Written beside all the trouble' });
    const titles = (): Promise<unknown[]> =>
      stage.read((db) => db.prepare("SELECT title FROM content WHERE id = 'new'").pluck().all(), 'good');
    await until('told', async () => (await titles()).length === 1);
    const body = eventBody({ resource: 'content', id: 'new' });
    for (const source of ['good', 'down', 'locked_out'])
      expect(await serving.deliver({ id: `msg_${source}`, body, source })).toBe(202);
    for (const source of ['nowhere', 'damaged'])
      expect(await serving.deliver({ id: `msg_${source}`, body, source })).toBe(503);
  });

  it('answers 404 for webhooks of a source that has none', async () => {
    expect(await serving.deliver({ id: 'msg_1', body: '{}', source: 'silent' })).toBe(404);
    expect(await serving.deliver({ id: 'msg_1', body: '{}', source: 'nobody' })).toBe(404);
  });

  it('F152 F159 says of each what is wrong with it, and that not all is ready', async () => {
    expect(await serving.page('/healthz')).toMatchObject({ status: 200 });
    const failed = async (): Promise<unknown[]> => {
      const { attention } = await serving.status();
      return attention.map(({ source, what }) => `${source}: ${what}`);
    };
    const wanted = [
      /^good: .*503/,
      /^down: .*503/,
      /^locked_out: .*401/,
      /^nowhere: .*nowhere/,
      /^damaged: .*database/,
    ];
    await until('told', async () => {
      const found = await failed();
      return wanted.every((what) => found.some((one) => what.test(String(one)))) || found;
    });
    const ready = await serving.page('/readyz');
    expect(ready.status).toBe(503);
    expect(JSON.parse(ready.body).sources).toEqual({
      good: 'ok',
      down: 'ok',
      locked_out: 'ok',
      nowhere: 'unreachable',
      damaged: 'unreachable',
      silent: 'ok',
    });
    const { body } = await serving.page('/metrics');
    expect(body).toMatch(/content_sync_warehouse_up\{source="nowhere"\} 0/);
    expect(body).toMatch(/content_sync_warehouse_up\{source="good"\} 1/);
    expect(body).toMatch(/content_sync_requests_total\{[^}]*source="down"[^}]*\} \d/);
  });

  it('F152 takes them up by itself when the cause is gone', async () => {
    stage.sandbox.faults.clear();
    down.faults.clear();
    const image = [...stage.sandbox.store.list('images')][0]?.id;
    rmSync(folderOf('nowhere'));
    rmSync(stage.file('damaged'));
    rmSync(stage.inboxFile('damaged'));
    for (const source of ['nowhere', 'damaged']) {
      const body = eventBody({ resource: 'images', id: image }, 'images.updated');
      await until('received', async () => (await serving.deliver({ id: 'msg_late', body, source })) === 202);
    }
    await stage.fresh(serving, 'nowhere');
    await stage.fresh(serving, 'damaged');
    await until('ready', async () => (await serving.page('/readyz')).status === 200);
    // What failed on its own is walked again by the schedule, a minute later; a webhook need not wait for that.
    for (const source of ['good', 'down'] as const) {
      const body = eventBody({ resource: 'images', id: image }, 'images.updated');
      expect(await serving.deliver({ id: `msg_${source}_image`, body, source })).toBe(202);
    }
    for (const source of ['good', 'down'])
      await until(
        'read',
        async () => (await stage.read((db) => db.prepare('SELECT id FROM images').pluck().all(), source)).length > 0,
      );
  });
});
