import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eitherDatabase } from '../support/databases.ts';
import { openServingStage, type Serving, type ServingStage } from '../support/serving.ts';

const EITHER = eitherDatabase(import.meta.filename);

const RECORDS = { content: 60, images: 10, analytics: 10 };

/** Events of two forms: those of the service itself, and one that names many records of one resource. */
const WEBHOOKS = {
  rules: [
    { kind: 'ping', resource: [] },
    { kind: 'bulk.*', where: { 'json:about': 'content' }, resource: 'content', id: ['json:key', 'json:keys'] },
    {
      kind: 'bulk.delete',
      where: { 'json:about': 'all' },
      resource: ['content', 'images'],
      id: 'json:keys',
      deleted: true,
    },
  ],
  manage: {
    list: { path: '/webhooks' },
    create: { path: '/webhooks', body: { url: '{url}', secret: '{secret}', events: '{events}' } },
    remove: { path: '/webhooks/{id}' },
    events: ['content.*', 'images.*'],
  },
};

describe.for(EITHER)('webhooks that are registered by command, on $name', { timeout: 120_000 }, (database) => {
  let stage: ServingStage;
  let serving: Serving;

  beforeAll(async () => {
    stage = await openServingStage({
      database,
      isInside: true,
      sandbox: { generate: RECORDS },
      profile: { webhooks: WEBHOOKS },
    });
    serving = await stage.serve();
    await stage.fresh(serving);
  });
  afterAll(() => stage.close());

  const manage = (name: string): Promise<{ code: number | null; stdout: string }> =>
    stage.run('webhooks', name, '--url', `${serving.url}/webhooks/blog`);
  const delivered = (): number => stage.sandbox.deliveries.delivered;

  it('come, and become rows', async () => {
    expect(await manage('register')).toMatchObject({ code: 0, stdout: expect.stringContaining('  made\n') });
    expect((await manage('register')).stdout).toContain('is there already');
    stage.write('content', 'new', { title: 'Told by webhook' });
    stage.write('images', 'img_new', { width: 3 });
    await stage.settled();
    expect(delivered()).toBe(2);
  });

  it('are gone once they are removed', async () => {
    expect((await manage('remove')).stdout).toContain(': removed');
    expect((await manage('list')).stdout).toBe('no webhooks\n');
    stage.write('content', 'untold', { title: 'Told by nobody' });
    expect([delivered(), stage.sandbox.deliveries.pending]).toEqual([2, 0]);
  });

  it('may name many records in one event', async () => {
    const keys = [...stage.sandbox.store.list('content')].slice(0, 20).map(({ id }) => id);
    for (const id of keys) stage.write('content', id, { title: `Changed with others: ${id}` });
    const bulk = { type: 'bulk.update', about: 'content', keys: [...keys, 'untold'] };
    expect(await serving.deliver({ id: 'msg_bulk', body: JSON.stringify(bulk) })).toBe(202);
    expect(await serving.deliver({ id: 'msg_ping', body: '{"type":"ping"}' })).toBe(202);
    await stage.settled();
    const [gone] = keys;
    if (gone === undefined) throw new Error('no record');
    stage.sandbox.store.remove('content', gone);
    const deleted = { type: 'bulk.delete', about: 'all', keys: [gone] };
    expect(await serving.deliver({ id: 'msg_gone', body: JSON.stringify(deleted) })).toBe(202);
    await stage.settled();
    const states = await stage.readInbox((db) =>
      db
        .prepare(
          "SELECT delivery_id, state FROM _sync_deliveries WHERE delivery_id IN ('msg_bulk', 'msg_ping', 'msg_gone') ORDER BY 1",
        )
        .all(),
    );
    expect(states).toEqual([
      { delivery_id: 'msg_bulk', state: 'done' },
      { delivery_id: 'msg_gone', state: 'done' },
      { delivery_id: 'msg_ping', state: 'ignored' },
    ]);
    const rows = await stage.read((db) =>
      db.prepare('SELECT count(*) FROM content WHERE _deleted_at IS NOT NULL').pluck().get(),
    );
    expect(Number(rows)).toBe(1);
  });
});
