import { describe, expect, it } from 'vitest';
import { eitherDatabase, type TestDatabase } from '../support/databases.ts';
import { ownService } from '../support/own-service.ts';

const FEED = {
  path: '/activity',
  query: { action: 'delete', from: '{since}', sort: 'id' },
  page: { style: 'page', size: 10 },
  id: 'item',
  at: 'timestamp',
  filter: [{ field: 'collection', in: ['report'] }],
  format: 'iso',
  lookback: '1m',
};
const ITEM = { item: '/report/{id}', item_record: 'data', gone: { status: [403] } };
const FILTER = { param: 'updated_since', lookback: '1s' };

interface Row {
  id: string;
  title: string;
  updated_at: string;
}

/** A service that lists what there is, and in another listing what was deleted. */
async function logging(database: TestDatabase, fields: Record<string, unknown> = ITEM) {
  const rows = new Map<string, Row>();
  const activity: { id: number; collection: string; item: string; timestamp: string }[] = [];
  const service = { rows, activity, clock: Date.now() - 7_200_000, feedStatus: 200, before: (): void => undefined };
  const tick = (): string => new Date((service.clock += 60_000)).toISOString();
  const put = (id: string, changed: Partial<Row> = {}): void => {
    rows.set(id, { id, title: `Title ${id}`, updated_at: tick(), ...changed });
  };
  const log = (collection: string, item: string): void => {
    activity.push({ id: activity.length + 1, collection, item, timestamp: tick() });
  };
  const remove = (id: string): void => {
    rows.delete(id);
    log('report', id);
  };
  for (let at = 0; at < 30; at += 1) put(`r${at}`);
  const listing = { incremental: FILTER, page: { style: 'page', size: 20, total: 'total' }, delete_feed: FEED };
  const stage = await ownService(database, { ...listing, ...fields }, ({ pathname, searchParams }) => {
    const headers = { date: new Date(service.clock).toUTCString() };
    const from = (Number(searchParams.get('page') ?? 1) - 1) * (pathname === '/v1/activity' ? 10 : 20);
    if (pathname === '/v1/activity') {
      service.before();
      if (service.feedStatus !== 200) return { status: service.feedStatus, headers, body: {} };
      const found = activity.filter(({ timestamp }) => timestamp >= (searchParams.get('from') ?? ''));
      return { headers, body: { data: found.slice(from, from + 10) } };
    }
    const id = pathname.split('/').at(3);
    if (id !== undefined) {
      const row = rows.get(id);
      return row === undefined ? { status: 403, headers, body: {} } : { headers, body: { data: row } };
    }
    const found = [...rows.values()]
      .filter(({ updated_at }) => updated_at >= (searchParams.get('updated_since') ?? ''))
      .toSorted((a, b) => (a.updated_at < b.updated_at ? -1 : 1));
    return { headers, body: { data: found.slice(from, from + 20), total: found.length } };
  });
  const { told: run, live } = stage;
  const all = (query: string): Promise<Record<string, unknown>[]> => stage.all<Record<string, unknown>>(query);
  expect(await run('backfill')).toEqual(['full', 'ok', 0, []]);
  // The rows were read before the deletes, by both clocks.
  await stage.write("UPDATE report SET _synced_at = '2020-01-01 00:00:00.000'");
  stage.service.requests.length = 0;
  const feedRequests = (): string[] => stage.service.requests.filter((path) => path.includes('/activity'));
  return { service, stage, put, log, remove, run, all, live, feedRequests, there: () => [...rows.keys()].toSorted() };
}

describe.for(eitherDatabase(import.meta.filename))('a feed of deletes on $name', (database) => {
  it.for([
    ['that are read alone', ITEM],
    ['that cannot be read alone', { item: null }],
  ] as const)('brings deletes of records %s without a whole walk', async ([, fields]) => {
    const { service, put, log, remove, run, all, live, feedRequests, there } = await logging(database, fields);
    for (const id of ['r3', 'r17']) remove(id);
    log('pages', 'r5');
    put('r4', { title: 'changed' });
    expect(await run()).toEqual(['incremental', 'ok', 2, []]);
    expect(await live()).toEqual(there());
    const [row] = await all("SELECT _deleted_at FROM report WHERE id = 'r3'");
    const time = service.activity[0]?.timestamp.slice(0, 19).replace('T', ' ');
    expect(String(row?.['_deleted_at']).slice(0, 19)).toBe(time);
    const [first] = feedRequests();
    expect(first).toContain('from=20');
    // The last one is asked for again, and nothing comes of it.
    expect(await run()).toEqual(['incremental', 'ok', 0, []]);
    const since = new URL(feedRequests().at(-1) ?? '', 'http://x').searchParams.get('from') ?? '';
    expect(Date.parse(since)).toBe(Date.parse(service.activity[1]?.timestamp ?? '') - 60_000);
    expect(await all('SELECT * FROM _sync_suspects')).toEqual([]);
  });

  it.for([
    ['read alone', ITEM],
    ['asked of the listing', { item: null }],
  ] as const)('deletes no record that is there again, as %s', async ([, fields]) => {
    const { service, remove, run, live, there } = await logging(database, fields);
    const before = service.rows.get('r3');
    remove('r3');
    // Restored just as it was: no listing by time shows it as changed.
    if (before !== undefined) service.rows.set('r3', before);
    remove('r4');
    expect(await run()).toEqual(['incremental', 'ok', 1, []]);
    expect(await live()).toEqual(there());
  });

  it('goes on from where it was if it could not be read', async () => {
    const { service, remove, run, live, there } = await logging(database);
    remove('r3');
    service.feedStatus = 403;
    expect(await run()).toEqual(['incremental', 'partial', 0, ['delete_feed_unread']]);
    service.feedStatus = 200;
    for (let at = 0; at < 30; at += 1) remove(`other${at}`);
    expect(await run()).toEqual(['incremental', 'ok', 1, []]);
    expect(await live()).toEqual(there());
  });

  it('is held if it names too many', async () => {
    const { stage, remove, run, live, there } = await logging(database);
    for (let at = 0; at < 8; at += 1) remove(`r${at}`);
    expect(await run()).toEqual(['incremental', 'partial', 0, ['deletes_held']]);
    expect(await live()).toHaveLength(30);
    expect((await stage.command('deletes', 'confirm', 'report')).code).toBe(0);
    expect(await live()).toEqual(there());
  });

  it('misses deletes that a whole walk finds', async () => {
    const { service, remove, run, live, there } = await logging(database);
    remove('r1');
    await run();
    service.rows.delete('r2');
    remove('r3');
    expect(await run()).toEqual(['incremental', 'ok', 1, []]);
    expect(await run('backfill')).toEqual(['full', 'ok', 1, []]);
    expect(await live()).toEqual(there());
  });
});
