import type { Client } from 'pg';
import { describe, expect, it, vi } from 'vitest';
import { asOtherClient, POSTGRES, readerOf, warehouseOn, preparedAddress } from '../../support/databases.ts';
import { flakyProxy } from '../../support/flaky-proxy.ts';
import { loading } from '../../support/page-loading.ts';
import { isCommitted } from '../../support/postgres-wire.ts';

const PROFILE = { history: 'all' };
const FIRST = ['{"id":"1","n":1,"tags":["a"]}', '{"id":"2","n":1,"tags":["a","b"]}'];
const CHANGED = ['{"id":"1","n":2,"tags":["c"]}', '{"id":"2","n":2,"tags":[]}'];

/** What stands in the tables of a resource with one list. */
async function standing(address: string) {
  const { rows } = readerOf(POSTGRES, address);
  return {
    content: await rows('SELECT id, n, _version FROM content ORDER BY 1'),
    tags: await rows('SELECT * FROM content_tags ORDER BY 1, 2'),
    versions: await rows('SELECT id, version, valid_to IS NULL AS current FROM _sync_versions ORDER BY 1, 2'),
  };
}

const AS_FIRST = {
  content: ['1', '2'].map((id) => ({ id, n: 1n, _version: 1n })),
  tags: [
    { content_id: '1', position: 0n, value: 'a' },
    { content_id: '2', position: 0n, value: 'a' },
    { content_id: '2', position: 1n, value: 'b' },
  ],
  versions: ['1', '2'].map((id) => ({ id, version: 1n, current: 1n })),
};
const AS_CHANGED = {
  content: ['1', '2'].map((id) => ({ id, n: 2n, _version: 2n })),
  tags: [{ content_id: '1', position: 0n, value: 'c' }],
  versions: ['1', '2'].flatMap((id) => [
    { id, version: 1n, current: 0n },
    { id, version: 2n, current: 1n },
  ]),
};

/** Resolves once a session waits for a lock of `client`'s. */
async function untilSomebodyWaits(client: Client): Promise<void> {
  await vi.waitUntil(
    async () => {
      // Within a transaction, Postgres shows the sessions that there were when it was first asked.
      await client.query('SELECT pg_stat_clear_snapshot()');
      const waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
      return (await client.query(waiting)).rowCount === 1;
    },
    { timeout: 20_000, interval: 10 },
  );
}

describe.skipIf(POSTGRES.missing !== null)('writing a page on postgres', () => {
  it.for([
    ['new', FIRST, AS_FIRST],
    ['changed', CHANGED, AS_CHANGED],
  ] as const)(
    'F138 doubles nothing where the answer to its COMMIT is lost: %s rows',
    async ([kind, page, expected]) => {
      const address = await preparedAddress(POSTGRES);
      let isArmed = false;
      const proxy = await flakyProxy(address, (message) => isArmed && isCommitted(message) && !(isArmed = false));
      const { warehouse } = await warehouseOn(POSTGRES, proxy.through(address));
      const { load } = await loading(warehouse, { profile: PROFILE });
      await load(kind === 'new' ? ['{"id":"0","n":0,"tags":["x"]}'] : FIRST, 1_000);
      isArmed = true;
      expect(await load(page, 2_000)).toMatchObject({ records: 2, rejected: 0 });
      expect(proxy.cuts()).toBe(1);
      const { content, tags, versions } = await standing(address);
      expect(content.filter(({ id }) => id !== '0')).toEqual(expected.content);
      expect(tags.filter(({ content_id: id }) => id !== '0')).toEqual(expected.tags);
      expect(versions.filter(({ id }) => id !== '0')).toEqual(expected.versions);
    },
  );

  it('F140 takes a record over that somebody else has written since it was looked up', async () => {
    const { warehouse, address } = await warehouseOn(POSTGRES);
    await (await loading(warehouse, { profile: PROFILE })).load(['{"id":"0","n":0,"tags":["x"]}'], 1_000);
    const stored = warehouse.rows.stored.bind(warehouse.rows);
    vi.spyOn(warehouse.rows, 'stored').mockImplementation(async (...asked) => {
      const found = await stored(...asked);
      await asOtherClient(address, async (client) => {
        await client.query(`INSERT INTO content (id, _hash, _version, _synced_at, n) VALUES ('1', 'x', 1, 'epoch', 9)`);
        await client.query(`INSERT INTO content_tags VALUES ('1', 0, 'theirs'), ('1', 7, 'theirs')`);
        await client.query(`INSERT INTO _sync_versions VALUES ('content', '1', 1, 'epoch', NULL, 'upsert', 'x', '{}')`);
      });
      return found;
    });
    const { load } = await loading(warehouse, { profile: PROFILE });
    expect(await load(FIRST, 2_000)).toMatchObject({ inserted: 2 });
    const { content, tags, versions } = await standing(address);
    expect(content.slice(1)).toEqual(AS_FIRST.content);
    expect(tags.slice(1)).toEqual(AS_FIRST.tags);
    expect(versions.slice(1)).toEqual(AS_FIRST.versions);
  });

  it('F139 is written again where it and another session wait for each other', async () => {
    const { warehouse, address } = await warehouseOn(POSTGRES);
    const { load } = await loading(warehouse, { profile: PROFILE });
    await load(FIRST, 1_000);
    const deadlocks = await asOtherClient(address, async (client) => {
      // Whoever waits longer than its own deadlock_timeout gives way: the page.
      await client.query("SET deadlock_timeout TO '60s'; BEGIN; SELECT 1 FROM content WHERE id = '2' FOR UPDATE");
      const loaded = load(CHANGED, 2_000);
      await untilSomebodyWaits(client);
      await client.query("SELECT 1 FROM content WHERE id = '1' FOR UPDATE");
      await client.query('COMMIT');
      expect(await loaded).toMatchObject({ updated: 2 });
      await client.query('SELECT pg_stat_force_next_flush()');
      const { rows } = await client.query<{ deadlocks: string }>(
        'SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()',
      );
      return Number(rows[0]?.deadlocks);
    });
    expect(deadlocks).toBe(1);
    expect(await standing(address)).toEqual(AS_CHANGED);
  });
});
