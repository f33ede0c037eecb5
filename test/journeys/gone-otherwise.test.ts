import { describe, expect, it } from 'vitest';
import type { Reply } from '../pagination/listing-server.ts';
import { eitherDatabase, type TestDatabase } from '../support/databases.ts';
import { ownService } from '../support/own-service.ts';

const FORBIDDEN = { errors: [{ message: 'no permission', extensions: { code: 'FORBIDDEN' } }] };

/** A service of thirty records; one that is not there answers `alone`, as do all if `isForbidden`. */
async function serviceFor(database: TestDatabase, alone: Reply, fields: Record<string, unknown> = {}, source = {}) {
  const records = new Map(Array.from({ length: 30 }, (_, at) => [`r${at}`, { id: `r${at}`, title: `Title ${at}` }]));
  const service = { records, alone, unlisted: new Set<string>(), isForbidden: false, listing: 200 };
  const profile = { item: '/report/{id}', item_record: 'data', updated: null, ...fields };
  const respond = ({ pathname }: URL): Reply => {
    if (pathname === '/home') return { headers: { 'content-type': 'text/html' }, body: '<html>home</html>' };
    if (pathname === '/v1/report' && service.listing !== 200) return { status: service.listing, body: FORBIDDEN };
    if (pathname === '/v1/report') {
      const data = [...records.values()].filter(({ id }) => !service.unlisted.has(id));
      return { body: { data, next_cursor: null } };
    }
    const record = service.isForbidden ? undefined : records.get(pathname.split('/').at(-1) ?? '');
    return record === undefined ? service.alone : { body: { data: record } };
  };
  const stage = await ownService(database, profile, respond, source);
  await stage.run('backfill');
  const isLive = async (): Promise<boolean> => (await stage.live()).includes('r3');
  return { ...stage, service, isLive };
}

/** Its record r3 has left the listing. */
async function withoutOne(database: TestDatabase, alone: Reply) {
  const stage = await serviceFor(database, alone, {}, { deletes: { settle: '0s' } });
  stage.service.records.delete('r3');
  return stage;
}

const OTHER: Readonly<Record<string, Reply>> = {
  'null for the record': { body: { data: null } },
  'status 204': { status: 204, body: '' },
  'a redirect to a page': { status: 302, headers: { location: '/home' }, body: '' },
  'a redirect to another origin': { status: 302, headers: { location: 'http://127.0.0.1:1/login' }, body: '' },
  'another record': { body: { data: { id: 'r7', title: 'Title 7' } } },
};

const REFUSED: Reply = { status: 403, body: { error: 'no' } };

const EITHER = eitherDatabase(import.meta.filename);

describe.for(EITHER)('a record that left the listing, on $name', (database) => {
  it.for(Object.keys(OTHER))('is deleted after two complete scans if it answers with %s', async (way) => {
    const stage = await withoutOne(database, OTHER[way] ?? {});
    const first = await stage.run('backfill');
    expect(first.resources[0]).toMatchObject({ status: 'partial', warnings: [{ code: 'deletes_unconfirmed' }] });
    expect(await stage.isLive()).toBe(true);
    expect((await stage.run('backfill')).resources[0]).toMatchObject({ status: 'ok', deleted: 1 });
    expect(await stage.isLive()).toBe(false);
  });

  it('stays if it answers status 403, until an operator confirms the delete', async () => {
    const stage = await withoutOne(database, REFUSED);
    for (let scan = 1; scan <= 2; scan += 1) {
      expect((await stage.run('backfill')).resources[0]).toMatchObject({ status: 'partial', deleted: 0 });
    }
    expect(await stage.isLive()).toBe(true);
    await stage.write("UPDATE _sync_suspects SET state = 'released'");
    expect((await stage.run('sync')).resources[0]).toMatchObject({ status: 'ok', deleted: 1 });
    expect(await stage.isLive()).toBe(false);
  });

  it('stays if it still exists, even after an operator confirmed the delete', async () => {
    const stage = await withoutOne(database, REFUSED);
    await stage.run('backfill');
    await stage.write("UPDATE _sync_suspects SET state = 'released'");
    stage.service.unlisted.add('r3');
    stage.service.records.set('r3', { id: 'r3', title: 'Title 3' });
    expect((await stage.run('sync')).resources[0]).toMatchObject({ deleted: 0 });
    expect(await stage.isLive()).toBe(true);
  });
});

describe.for(EITHER)('a status that means gone for single records alone, on $name', (database) => {
  const forbidding = (gone: object = { status: [403] }) =>
    serviceFor(database, { status: 403, body: FORBIDDEN }, { gone });

  it('confirms the delete of what a whole walk has not met', async () => {
    const { service, told, live } = await forbidding();
    service.records.delete('r3');
    service.records.delete('r17');
    expect(await told()).toEqual(['full', 'ok', 2, []]);
    expect(await live()).toEqual([...service.records.keys()].toSorted());
  });

  it('proves nothing as soon as every record is answered so', async () => {
    const { service, told, live } = await forbidding();
    service.records.delete('r3');
    service.isForbidden = true;
    expect(await told()).toEqual(['full', 'partial', 0, ['deletes_held']]);
    expect(await live()).toHaveLength(30);
  });

  it('needs the words in the body where the profile names some', async () => {
    const { service, told, live } = await forbidding({
      status: [403],
      body: { path: 'errors', contains: 'forbidden' },
    });
    service.records.delete('r3');
    service.alone = { status: 403, body: { errors: [{ message: 'blocked by the firewall' }] } };
    expect(await told()).toEqual(['full', 'partial', 0, ['deletes_unconfirmed']]);
    expect(await live()).toHaveLength(30);
    service.alone = { status: 403, body: FORBIDDEN };
    expect(await told()).toEqual(['full', 'ok', 1, []]);
  });
});
