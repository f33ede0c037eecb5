import { describe, expect, it } from 'vitest';
import { ask, type TextRow } from '../../support/asking.ts';
import { DATABASES } from '../../support/databases.ts';
import { ownService } from '../../support/own-service.ts';
import { typedRecords } from './typed-records.ts';

/** JSON by its value: its spaces, its escapes and the zeros at the end of a number tell nothing. */
function comparable(row: TextRow, json: ReadonlySet<string>): TextRow {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      name,
      value === null || !json.has(name) ? value : JSON.stringify(JSON.parse(value)),
    ]),
  );
}

describe.for(DATABASES)('history on $name', (database) => {
  it('shows the current version of a record as the view of live rows shows it', async () => {
    let sent = typedRecords();
    const stage = await ownService(
      database,
      { updated: null, incremental: null, item: null, history: 'all', depth: 4 },
      () => ({ body: `{"data":[${sent.join(',')}],"next_cursor":null}` }),
    );
    expect(await stage.run('backfill')).toMatchObject({ status: 'ok' });
    sent = sent.map((text) => text.replace(/\}$/, ',"later":"1"}'));
    expect(await stage.run('backfill')).toMatchObject({ status: 'ok' });
    const json = new Set(
      (await ask(stage.address, `SELECT column_name FROM _sync_columns WHERE type = 'json'`)).map(
        (row) => row['column_name'] ?? '',
      ),
    );
    const live = await ask(stage.address, 'SELECT * FROM report_live ORDER BY id');
    const current = await ask(stage.address, 'SELECT * FROM report_history WHERE is_current ORDER BY id');
    const before = await ask(stage.address, 'SELECT * FROM report_history WHERE NOT is_current ORDER BY id');
    expect(live.length).toBe(sent.length);
    for (const [at, row] of live.entries()) {
      const { _synced_at: _, ...shown } = comparable(row, json);
      const { version, valid_from, valid_to, is_current, is_deleted, tags, people, deep_er_list, ...held } = comparable(
        current[at] ?? {},
        json,
      );
      expect({ version, valid_to, deleted: is_deleted === '0' || is_deleted === 'f' }).toEqual({
        version: '2',
        valid_to: null,
        deleted: true,
      });
      expect({ valid_from, is_current, tags, people, deep_er_list }).not.toContain(undefined);
      expect(held).toEqual(shown);
      expect({ ...comparable(before[at] ?? {}, json), later: '1' }).toMatchObject(shown);
    }
  });
});

const LOCAL_TIMES = [
  '2024-03-31T02:30:00',
  '2024-03-31T01:59:59',
  '2024-03-31T03:00:00',
  '2024-10-27T02:00:00',
  '2024-10-27T02:59:59.5',
  '2024-10-27T03:00:00',
  '2024-07-01T12:00',
  '1970-01-01T12:00:00',
  '2037-12-31T23:00:00.123',
  '2024-07-01T12:00:00Z',
  '2024-07-01',
];

describe.for(DATABASES)('local times on $name', (database) => {
  it('are the moments that the view of live rows shows', async () => {
    const zones = {
      zurich: 'Europe/Zurich',
      york: 'America/New_York',
      fixed: '-03:30',
      apia: 'Pacific/Apia',
      utc: 'UTC',
    };
    const sent = LOCAL_TIMES.map((time, id) =>
      JSON.stringify({ id: `t${id}`, ...Object.fromEntries(Object.keys(zones).map((name) => [name, time])) }),
    );
    const stage = await ownService(
      database,
      { updated: null, incremental: null, item: null, history: 'all', times: zones },
      () => ({ body: `{"data":[${sent.join(',')}],"next_cursor":null}` }),
    );
    expect(await stage.run('backfill')).toMatchObject({ status: 'ok' });
    const columns = `id, ${Object.keys(zones).join(', ')}`;
    const live = await ask(stage.address, `SELECT ${columns} FROM report_live ORDER BY id`);
    expect(live).toHaveLength(sent.length);
    expect(await ask(stage.address, `SELECT ${columns} FROM report_history ORDER BY id`)).toEqual(live);
  });
});
