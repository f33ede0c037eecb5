import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { eitherDatabase } from '../support/databases.ts';
import { ownStage, type OwnStage } from '../support/own-stage.ts';
import type { OwnRecord } from '../support/record-service.ts';
import { tableIn } from './read-back.ts';
import { expectSnapshot } from './standing.ts';

const AT = '2024-03-01T08:00:00Z';
const LATER = '2024-03-02T08:00:00Z';

/** Ten a month over five months. */
const RECORDS: readonly OwnRecord[] = Array.from({ length: 50 }, (_, number) => ({
  id: `r${String(number).padStart(2, '0')}`,
  updated_at: AT,
  day: `2024-${String(1 + (number % 5)).padStart(2, '0')}-15`,
  views: number,
  tags: [`t${number % 3}`],
}));

interface Written {
  tables: { table: string; rows: number; files: number; written_files: number }[];
}

async function exported(stage: OwnStage, ...args: string[]): Promise<Map<string, Written['tables'][number]>> {
  const { code, stdout, stderr } = await stage.command('export', 'parquet', 'out', '--json', ...args);
  expect([code, stderr]).toEqual([0, '']);
  const report: Written = JSON.parse(stdout);
  return new Map(report.tables.map((table) => [table.table, table]));
}

describe.for(eitherDatabase(import.meta.filename))('a second export of $name', (database) => {
  it('writes the changed months, and equals the snapshot after every kind of change', async () => {
    const stage = await ownStage(database, RECORDS);
    const folder = path.join(stage.folder, 'out');
    const first = await exported(stage);
    expect(first.get('content_live')).toMatchObject({ rows: 50, files: 5, written_files: 5 });
    expect(tableIn(folder, 'content_live')).toMatchObject({ month_of: 'day' });
    expect(tableIn(folder, 'content_live').files.map(({ month }) => month)).toEqual(
      [1, 2, 3, 4, 5].map((month) => `2024-0${month}`),
    );
    await expectSnapshot(database, stage, folder);
    // Nothing has changed: only the manifest is new.
    const standing = tableIn(folder, 'content_live').files;
    expect([...(await exported(stage)).values()].filter((table) => table.written_files > 0)).toEqual([]);
    expect(tableIn(folder, 'content_live').files).toEqual(standing);

    const { service } = stage;
    const steps: readonly (readonly [string, () => void, number])[] = [
      ['changed', () => service.put({ ...RECORDS[0], id: 'r00', updated_at: LATER, views: 1_000 }), 1],
      ['moved', () => service.put({ ...RECORDS[1], id: 'r01', updated_at: LATER, day: '2024-05-01' }), 2],
      ['new', () => service.put({ id: 'r99', updated_at: LATER, day: '2025-12-31', views: 1 }), 1],
      ['undated', () => service.put({ id: 'r98', updated_at: LATER, views: 1 }), 1],
      ['dated', () => service.put({ id: 'r98', updated_at: '2024-03-03T08:00:00Z', day: '2024-03-03', views: 1 }), 1],
    ];
    for (const [what, change, files] of steps) {
      change();
      await stage.walk('sync');
      expect([what, (await exported(stage)).get('content_live')?.written_files]).toEqual([what, files]);
      await expectSnapshot(database, stage, folder);
    }
    expect(tableIn(folder, 'content_live').files.map(({ month }) => month)).not.toContain('__HIVE_DEFAULT_PARTITION__');
    // Deleted, and with its month.
    service.records.delete('r02');
    service.records.delete('r99');
    await stage.walk('backfill');
    await exported(stage);
    await expectSnapshot(database, stage, folder);
    expect(tableIn(folder, 'content_live').rows).toBe(50);
    expect(tableIn(folder, 'content_live').files.map(({ month }) => month)).not.toContain('2025-12');
  });

  it('rewrites a table after a change of its columns or of the options', async () => {
    const stage = await ownStage(database, RECORDS);
    const folder = path.join(stage.folder, 'out');
    await exported(stage);
    expect((await exported(stage, '--full')).get('content_live')).toMatchObject({ files: 5, written_files: 5 });
    expect((await exported(stage, '--no-partitions')).get('content_live')).toMatchObject({
      files: 1,
      written_files: 1,
    });
    await expectSnapshot(database, stage, folder);
    stage.service.put({ id: 'r00', updated_at: LATER, day: '2024-01-15', further: 'x' });
    await stage.walk('sync');
    await exported(stage);
    expect((await exported(stage, '--tables', 'content_live')).size).toBe(1);
    await expectSnapshot(database, stage, folder);
    // Text becomes of a number: the view keeps its type, and gets a column.
    stage.service.put({ id: 'r00', updated_at: '2024-03-04T08:00:00Z', day: '2024-01-15', views: 'many' });
    await stage.walk('sync');
    expect((await exported(stage)).get('content_live')).toMatchObject({ files: 5, written_files: 5 });
    await expectSnapshot(database, stage, folder);
  });

  it('equals the snapshot after all rows are deleted and after they are restored', async () => {
    const stage = await ownStage(database, RECORDS.slice(0, 3));
    const folder = path.join(stage.folder, 'out');
    await exported(stage);
    await stage.write(`UPDATE content SET _deleted_at = _synced_at`);
    await exported(stage);
    await expectSnapshot(database, stage, folder);
    expect(tableIn(folder, 'content_live').rows).toBe(0);
    await stage.write(`UPDATE content SET _deleted_at = NULL`);
    await exported(stage);
    await expectSnapshot(database, stage, folder);
    expect(tableIn(folder, 'content_live').rows).toBe(3);
  });
});
