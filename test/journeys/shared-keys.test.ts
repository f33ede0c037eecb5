import { describe, expect, it } from 'vitest';
import type { RunReport } from '../../src/sync/report.ts';
import { eitherDatabase, type TestDatabase } from '../support/databases.ts';
import { ownService } from '../support/own-service.ts';

const at = (hour: number): string => `2026-03-01T0${hour}:00:00Z`;
const sum = ({ resources: [report] }: RunReport): number[] => [report?.inserted ?? -1, report?.unchanged ?? -1];

/** A run over two pages of these records. */
async function runOver(database: TestDatabase, first: readonly object[], second: readonly object[] = []) {
  const stage = await ownService(database, { updated: 'changed', page: { style: 'cursor', size: 3 } }, (url) =>
    url.searchParams.has('cursor')
      ? { body: { data: second, next_cursor: null } }
      : { body: { data: first, next_cursor: second.length === 0 ? null : 'second' } },
  );
  let notes: object = {};
  const report = await stage.run('backfill', { watcher: { ended: (_, told) => (notes = told) } });
  const rows = await stage.read((db) => db.prepare('SELECT id, text FROM report ORDER BY id').all());
  return { stage, report, rows, notes, warnings: report.resources[0]?.warnings ?? [] };
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
        message: '3 records have the id of another record on their page and differ from it, such as "a"',
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

  it('are states of one record where its own time tells them apart: the newest is kept, the others are counted', async () => {
    const { report, rows, warnings, notes } = await runOver(database, [
      { id: 'a', text: 'old', changed: at(1) },
      { id: 'a', text: 'another old', changed: at(1) },
      { id: 'a', text: 'new', changed: at(3) },
      { id: 'a', text: 'older', changed: at(2) },
    ]);
    expect([report.status, ...sum(report)]).toEqual(['ok', 1, 0]);
    expect([rows, warnings]).toEqual([[{ id: 'a', text: 'new' }], []]);
    expect(notes).toMatchObject({ older_copies: 3 });
  });
});
