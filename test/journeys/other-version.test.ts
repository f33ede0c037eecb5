import { describe, expect, it } from 'vitest';
import { eitherDatabase } from '../support/databases.ts';
import { ownService } from '../support/own-service.ts';

const UPDATED = '2026-03-01T12:00:00Z';
const IDS = ['a', 'b', 'c'];

/** The same records in the form of the version that is asked for, changed since as the filter says. */
function respond(url: URL) {
  const edition = url.searchParams.get('edition') ?? '1';
  const since = url.searchParams.get('updated_since');
  const listed = IDS.filter(() => since === null || Date.parse(since) <= Date.parse(UPDATED));
  const data = listed.map((id) =>
    edition === '1'
      ? { id, updated_at: UPDATED, title: `Title ${id}` }
      : { id, updated_at: UPDATED, name: `Name ${id}`, score: 1 },
  );
  return { headers: { 'content-type': 'application/json' }, body: { data, next_cursor: null } };
}

describe.for(eitherDatabase(import.meta.filename))('another version of the API, on $name', (database) => {
  it('is copied whole by the next sync, also where nothing has changed since', async () => {
    const fields = { incremental: { param: 'updated_since', lookback: '1s' }, item: null };
    const stage = await ownService(database, fields, respond);
    const use = (edition: string): void => stage.setReport(fields, { version: { query: { edition } } });
    use('1');
    expect((await stage.run('backfill')).resources).toMatchObject([{ mode: 'full', status: 'ok', inserted: 3 }]);
    expect((await stage.run('sync')).resources).toMatchObject([{ mode: 'incremental', status: 'ok', updated: 0 }]);

    use('2');
    const [moved] = (await stage.run('sync')).resources;
    expect(moved).toMatchObject({ mode: 'full', status: 'ok', updated: 3, deleted: 0 });
    expect(moved?.warnings).toMatchObject([
      { code: 'credential_renewed', message: expect.stringContaining('or the version of the API is another one') },
    ]);
    const rows = await stage.all('SELECT id, title, name, score FROM report ORDER BY id');
    expect(rows).toEqual(IDS.map((id) => ({ id, title: null, name: `Name ${id}`, score: 1 })));
    expect((await stage.run('sync')).resources).toMatchObject([{ mode: 'incremental', status: 'ok' }]);
  });
});
