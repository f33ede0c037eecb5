import { describe, expect, it } from 'vitest';
import { eitherDatabase, type TestDatabase } from '../support/databases.ts';
import { ownService } from '../support/own-service.ts';

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
