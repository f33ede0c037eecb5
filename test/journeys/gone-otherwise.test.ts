import { describe, expect, it } from 'vitest';
import type { Reply } from '../pagination/listing-server.ts';
import { eitherDatabase, type TestDatabase } from '../support/databases.ts';
import { ownService } from '../support/own-service.ts';

/** A service whose record r3 can leave the listing; fetched individually, it then answers `alone`. */
async function serviceFor(database: TestDatabase, alone: Reply | 'record') {
  const records = Array.from({ length: 30 }, (_, at) => ({ id: `r${at}`, title: `Title ${at}` }));
  const state = { isListed: true, alone };
  const stage = await ownService(
    database,
    { item: '/report/{id}', item_record: 'data', updated: null },
    ({ pathname }) => {
      const path = pathname.replace('/v1', '');
      if (path === '/home') return { headers: { 'content-type': 'text/html' }, body: '<html>home</html>' };
      const listed = records.filter(({ id }) => state.isListed || id !== 'r3');
      if (path === '/report') return { body: { data: listed, next_cursor: null } };
      const id = path.split('/').at(-1);
      const isRecord = state.isListed || id !== 'r3' || state.alone === 'record';
      return state.alone !== 'record' && !isRecord
        ? state.alone
        : { body: { data: records.find((record) => record.id === id) } };
    },
    { deletes: { settle: '0s' } },
  );
  await stage.run('backfill');
  state.isListed = false;
  const isLive = (): Promise<boolean> =>
    stage.read((db) => db.prepare("SELECT 1 FROM report WHERE id = 'r3' AND _deleted_at IS NULL").get() !== undefined);
  return { stage, state, isLive };
}

const OTHER: Readonly<Record<string, Reply>> = {
  'null for the record': { body: { data: null } },
  'an empty body': { body: '' },
  'status 204': { status: 204, body: '' },
  'an empty object': { body: {} },
  'an empty list': { body: { data: [] } },
  'a redirect to a page': { status: 302, headers: { location: '/home' }, body: '' },
  'a redirect to another record': { status: 301, headers: { location: '/v1/report/r7' }, body: '' },
  'a redirect to another origin': { status: 302, headers: { location: 'http://127.0.0.1:1/login' }, body: '' },
  'another record': { body: { data: { id: 'r7', title: 'Title 7' } } },
};

const REFUSED: Readonly<Record<string, Reply>> = {
  'status 403': { status: 403, body: { error: 'no' } },
  'status 500': { status: 500, body: { error: 'no' } },
};

describe.for(eitherDatabase(import.meta.filename))('a record that left the listing, on $name', (database) => {
  it.for(Object.keys(OTHER))('is deleted after two complete scans if it answers with %s', async (way) => {
    const { stage, isLive } = await serviceFor(database, OTHER[way] ?? {});
    const first = await stage.run('backfill');
    expect(first.resources[0]).toMatchObject({ status: 'partial', warnings: [{ code: 'deletes_unconfirmed' }] });
    expect(await isLive()).toBe(true);
    expect((await stage.run('backfill')).resources[0]).toMatchObject({ status: 'ok', deleted: 1 });
    expect(await isLive()).toBe(false);
  });

  it.for(Object.keys(REFUSED))('stays if it answers %s, until an operator confirms the delete', async (way) => {
    const { stage, isLive } = await serviceFor(database, REFUSED[way] ?? {});
    for (let scan = 1; scan <= 2; scan += 1) {
      expect((await stage.run('backfill')).resources[0]).toMatchObject({ status: 'partial', deleted: 0 });
    }
    expect(await isLive()).toBe(true);
    await stage.write("UPDATE _sync_suspects SET state = 'released'");
    expect((await stage.run('sync')).resources[0]).toMatchObject({ status: 'ok', deleted: 1 });
    expect(await isLive()).toBe(false);
  });

  it('stays if it still exists, even after an operator confirmed the delete', async () => {
    const { stage, state, isLive } = await serviceFor(database, REFUSED['status 403'] ?? {});
    await stage.run('backfill');
    await stage.write("UPDATE _sync_suspects SET state = 'released'");
    state.alone = 'record';
    expect((await stage.run('sync')).resources[0]).toMatchObject({ deleted: 0 });
    expect(await isLive()).toBe(true);
  });
});

const EITHER = eitherDatabase(import.meta.filename);

const FORBIDDEN = { errors: [{ message: 'no permission', extensions: { code: 'FORBIDDEN' } }] };

/** A service that answers 403 for a record that is not there, as for one that the caller must not read. */
async function forbidding(database: TestDatabase, fields: Record<string, unknown> = {}) {
  const records = new Map(Array.from({ length: 30 }, (_, at) => [`r${at}`, { id: `r${at}`, title: `Title ${at}` }]));
  const service = { records, isForbidden: false, refusal: FORBIDDEN as unknown, listing: 200 };
  const stage = await ownService(
    database,
    { item: '/report/{id}', item_record: 'data', updated: null, gone: { status: [403] }, ...fields },
    ({ pathname }) => {
      if (pathname === '/v1/report') {
        return service.listing === 200
          ? { body: { data: [...records.values()], next_cursor: null } }
          : { status: service.listing, body: FORBIDDEN };
      }
      const record = service.isForbidden ? undefined : records.get(pathname.split('/').at(-1) ?? '');
      return record === undefined ? { status: 403, body: service.refusal } : { body: { data: record } };
    },
  );
  await stage.run('backfill');
  const run = async (): Promise<unknown[]> => {
    const { resources } = await stage.run('sync');
    const [report] = resources;
    return [report?.status, report?.deleted, (report?.warnings ?? []).map(({ code }) => code)];
  };
  const live = (): Promise<string[]> =>
    stage.read((db) =>
      db.prepare<[], string>('SELECT id FROM report WHERE _deleted_at IS NULL').pluck().all().toSorted(),
    );
  return { service, run, live, stage };
}

describe.for(EITHER)('a status that means gone for single records alone, on $name', (database) => {
  it('confirms the delete of what a whole walk has not met', async () => {
    const { service, run, live } = await forbidding(database);
    service.records.delete('r3');
    service.records.delete('r17');
    expect(await run()).toEqual(['ok', 2, []]);
    expect(await live()).toEqual([...service.records.keys()].toSorted());
  });

  it('proves nothing as soon as every record is answered so', async () => {
    const { service, run, live } = await forbidding(database);
    service.records.delete('r3');
    service.isForbidden = true;
    expect(await run()).toEqual(['partial', 0, ['deletes_held']]);
    expect(await live()).toHaveLength(30);
  });

  it('needs the words in the body where the profile names some', async () => {
    const { service, run, live } = await forbidding(database, {
      gone: { status: [403], body: { path: 'errors', contains: 'forbidden' } },
    });
    service.records.delete('r3');
    service.refusal = { errors: [{ message: 'blocked by the firewall' }] };
    expect(await run()).toEqual(['partial', 0, ['deletes_unconfirmed']]);
    expect(await live()).toHaveLength(30);
    service.refusal = FORBIDDEN;
    expect(await run()).toEqual(['ok', 1, []]);
  });

  it('is an error of the listing', async () => {
    const { service, run, live, stage } = await forbidding(database);
    service.listing = 403;
    expect((await run())[0]).toBe('failed');
    expect((await stage.run('sync')).resources[0]?.error?.code).toBe('forbidden');
    expect(await live()).toHaveLength(30);
  });
});
