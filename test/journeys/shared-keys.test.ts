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
  const rows = await stage.read((db) => db.prepare('SELECT id, text FROM report ORDER BY id').all());
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

  it('are one record where they say the same, however it is written', async () => {
    const { report, rows, warnings } = await runOver(database, [
      { id: 'a', text: 'one', n: 1 },
      { text: 'one', n: 1, id: 'a' },
      { id: 'a', text: 'one', n: 1 },
    ]);
    expect([report.status, ...sum(report)]).toEqual(['ok', 1, 2]);
    expect([rows, warnings]).toEqual([[{ id: 'a', text: 'one' }], []]);
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
