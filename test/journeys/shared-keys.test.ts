import { describe, expect, it } from 'vitest';
import type { RunReport } from '../../src/sync/report.ts';
import { eitherDatabase, type TestDatabase } from '../support/databases.ts';
import { ownService } from '../support/own-service.ts';

const at = (hour: number): string => `2026-03-01T0${hour}:00:00Z`;
const sum = ({ resources: [report] }: RunReport): number[] => [report?.inserted ?? -1, report?.unchanged ?? -1];

/** A run over two pages of these records. */
async function runOver(
  database: TestDatabase,
  first: readonly object[],
  second: readonly object[] = [],
  fields: Record<string, unknown> = {},
) {
  const profile = { updated: 'changed', page: { style: 'cursor', size: 3 }, ...fields };
  const stage = await ownService(database, profile, (url) =>
    url.searchParams.has('cursor')
      ? { body: { data: second, next_cursor: null } }
      : { body: { data: first, next_cursor: second.length === 0 ? null : 'second' } },
  );
  const report = await stage.run('backfill');
  const rows = await stage.all('SELECT id, text FROM report ORDER BY id');
  return { stage, report, rows, warnings: report.resources[0]?.warnings ?? [] };
}

describe.for(eitherDatabase(import.meta.filename))('records of one page that share a key on $name', (database) => {
  it('and differ are told once, and the run is not ok', async () => {
    const { stage, report, rows, warnings } = await runOver(
      database,
      [
        { id: 'a', text: 'one' },
        { id: 'a', text: 'two' },
        { id: 'b', text: 'three' },
      ],
      [
        { id: 'c', text: 'four', changed: at(1) },
        { id: 'c', text: 'five', changed: at(1) },
        { id: 'c', text: 'six', changed: at(1) },
      ],
    );
    expect(report.status).toBe('partial');
    expect(sum(report)).toEqual([3, 0]);
    expect(rows).toEqual([
      { id: 'a', text: 'two' },
      { id: 'b', text: 'three' },
      { id: 'c', text: 'six' },
    ]);
    expect(warnings).toEqual([
      {
        code: 'keys_shared',
        message: '3 records have the id of another listed record and differ from it, such as "a"',
        hint: expect.stringMatching(/name the fields that tell them apart as `id`/),
      },
    ]);
    const { code, stderr } = await stage.command('backfill');
    expect([code, stderr.match(/"msg":"3 records have the id/g)]).toEqual([3, [expect.anything()]]);
  });

  it('and tell other times of change may be states of one record: the newest is kept, and the run is ok if that is accepted', async () => {
    const states = [
      { id: 'a', text: 'old', changed: at(1) },
      { id: 'a', text: 'another old', changed: at(1) },
      { id: 'a', text: 'new', changed: at(3) },
      { id: 'a', text: 'older', changed: at(2) },
    ];
    const { report, rows, warnings } = await runOver(database, states);
    expect([report.status, ...sum(report)]).toEqual(['partial', 1, 0]);
    expect(rows).toEqual([{ id: 'a', text: 'new' }]);
    expect(warnings).toEqual([
      {
        code: 'states_listed',
        message: '3 records have the id of another listed record and have an older time of change, such as "a"',
        hint: expect.stringMatching(/name the fields that tell them apart as `id`.* accept: \[states\]/),
      },
    ]);
    const accepting = await runOver(database, states, [], { accept: ['states'] });
    expect([accepting.report.status, accepting.rows]).toEqual(['ok', rows]);
    expect(accepting.warnings).toMatchObject([{ code: 'states_listed', accepted: true }]);
  });
});

describe.for(eitherDatabase(import.meta.filename))('records of two pages that share a key on $name', (database) => {
  const first = [
    { id: 'a', text: 'english', changed: at(1) },
    { id: 'b', text: 'english', changed: at(2) },
    { id: 'c', text: 'english', changed: at(3) },
  ];

  it('are not taken for changes of one where they changed long before the walk', async () => {
    const second = first.map(({ id }) => ({ id, text: 'german', changed: at(4) }));
    const { stage, report, warnings } = await runOver(database, first, second);
    expect([report.status, warnings]).toEqual([
      'partial',
      [
        {
          code: 'states_listed',
          message: '3 records have the id of another listed record and have an older time of change, such as "a"',
          hint: expect.any(String),
        },
      ],
    ]);
    // Nor by the next walk, which meets the older ones first.
    expect((await stage.run('backfill')).status).toBe('partial');
    const accepting = await runOver(database, first, second, { accept: ['states'] });
    expect([accepting.report.status, accepting.warnings]).toMatchObject(['ok', [{ code: 'states_listed' }]]);
  });

  it.for([
    ['was changed while it was listed', new Date().toISOString()],
    ['differs in what is no change, such as a counter', at(1)],
  ] as const)('are one that %s', async ([, changed]) => {
    const { report, rows, warnings } = await runOver(database, first, [{ id: 'a', text: 'new', changed }]);
    expect([report.status, warnings]).toEqual(['ok', []]);
    expect(rows[0]).toEqual({ id: 'a', text: 'new' });
  });
});

/** A report by page and country, with totals: there the dimension is not set. */
const ROWS = [
  { page: '/', country: 'CH', views: 1, days: [{ day: 1, views: 1 }] },
  { page: '/', country: null, views: 2, days: [{ day: 1, views: 2 }] },
  { page: '/', country: '', views: 3, days: [] },
  { page: '/', country: 'null', views: 4, days: [{ day: 1, views: 4 }] },
  { page: null, country: null, views: 5, days: [] },
  { page: 7, country: null, views: 6, days: [] },
];
const KEYS = ['["/",""]', '["/","CH"]', '["/","null"]', '["/",null]', '["7",null]', '[null,null]'];

async function reportOf(database: TestDatabase) {
  const listed: { rows: Record<string, unknown>[] } = { rows: ROWS };
  const fields = { id: ['page', 'country'], updated: null, history: 'all' };
  const respond = () => ({ body: { data: listed.rows, next_cursor: null } });
  const stage = await ownService(database, fields, respond, { deletes: { max_part: 1 } });
  const all = (query: string): Promise<unknown[]> => stage.all(query);
  return { stage, listed, all };
}

describe.for(eitherDatabase(import.meta.filename))('a key of several fields on $name', (database) => {
  it('may have parts that are not set, and loading twice gives one row each', async () => {
    const { stage, all } = await reportOf(database);
    for (const outcome of [{ inserted: 6 }, { inserted: 0, unchanged: 6 }]) {
      const { status, resources } = await stage.run('backfill');
      expect([status, resources[0]]).toMatchObject(['ok', { ...outcome, updated: 0, rejected: 0 }]);
      expect((await all('SELECT _id FROM report ORDER BY 1')).map((row) => Object.values(row ?? {})[0])).toEqual(KEYS);
    }
    expect(await all('SELECT _id, page, country, views FROM report WHERE country IS NULL ORDER BY views')).toEqual([
      { _id: '["/",null]', page: '/', country: null, views: 2 },
      { _id: '[null,null]', page: null, country: null, views: 5 },
      { _id: '["7",null]', page: '7', country: null, views: 6 },
    ]);
  });

  it('keeps child rows and versions under it', async () => {
    const { stage, listed, all } = await reportOf(database);
    await stage.run('backfill');
    const restated = (row: (typeof ROWS)[number]) => ({ ...row, views: row.views * 10, days: [{ day: 2, views: 9 }] });
    listed.rows = ROWS.map((row) => (row.country === null ? restated(row) : row));
    expect((await stage.run('sync')).resources[0]).toMatchObject({ status: 'ok', updated: 3, unchanged: 3 });
    expect(await all('SELECT report_id, position, day, views FROM report_days ORDER BY 1')).toEqual([
      { report_id: '["/","CH"]', position: 0, day: 1, views: 1 },
      { report_id: '["/","null"]', position: 0, day: 1, views: 4 },
      { report_id: '["/",null]', position: 0, day: 2, views: 9 },
      { report_id: '["7",null]', position: 0, day: 2, views: 9 },
      { report_id: '[null,null]', position: 0, day: 2, views: 9 },
    ]);
    const versions = await all('SELECT id, max(version) AS last FROM _sync_versions GROUP BY id ORDER BY id');
    expect(versions).toEqual(KEYS.map((id) => ({ id, last: id.endsWith(',null]') ? 2 : 1 })));
  });

  it('deletes the row whose parts are no longer listed, and no other', async () => {
    const { stage, listed, all } = await reportOf(database);
    await stage.run('backfill');
    // What was written just now is not missed yet.
    await stage.write("UPDATE report SET _synced_at = '2020-01-01 00:00:00.000'");
    listed.rows = ROWS.filter(({ views }) => views !== 2);
    expect((await stage.run('backfill')).resources[0]).toMatchObject({ status: 'ok', deleted: 1 });
    expect(await all('SELECT _id FROM report WHERE _deleted_at IS NOT NULL')).toEqual([{ _id: '["/",null]' }]);
    expect(await all(`SELECT report_id FROM report_days WHERE report_id LIKE '%,null]'`)).toEqual([]);
    listed.rows = ROWS;
    expect((await stage.run('backfill')).resources[0]).toMatchObject({ status: 'ok', updated: 1, unchanged: 5 });
    expect(await all('SELECT _id FROM report WHERE _deleted_at IS NOT NULL')).toEqual([]);
  });

  it('sets a record aside whose part is not there at all, until it is', async () => {
    const { stage, listed, all } = await reportOf(database);
    listed.rows = [...ROWS, { page: '/about', views: 7 }];
    expect((await stage.run('backfill')).resources[0]).toMatchObject({ status: 'partial', inserted: 6, rejected: 1 });
    const rejects = 'SELECT reason, detail FROM _sync_rejects WHERE resolved_at IS NULL';
    expect(await all(rejects)).toEqual([{ reason: 'id_missing', detail: 'no field country' }]);
    listed.rows = [...ROWS, { page: '/about', country: null, views: 7 }];
    expect((await stage.run('backfill')).resources[0]).toMatchObject({ status: 'ok', inserted: 1, rejected: 0 });
    expect(await all(rejects)).toEqual([]);
  });
});
