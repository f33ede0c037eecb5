import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { journey } from '../support/journey.ts';
import { DATABASES, SQLITE } from '../support/databases.ts';
import { ownStage } from '../support/own-stage.ts';
import { manifestIn } from './read-back.ts';
import { filesBelow } from './standing.ts';

const RECORDS = [{ id: 'a', views: 1 }];

describe('the place of an export', () => {
  it.for(DATABASES)('is not asked for before there is a warehouse, and $name is not made', async (database) => {
    const blog = await journey({ database });
    const { code, stderr } = await blog.command('export', 'csv', 'out');
    expect([code, stderr]).toEqual([2, expect.stringContaining('[warehouse_missing]')]);
  });

  it('is refused if something else is there', async () => {
    const stage = await ownStage(SQLITE, RECORDS);
    const folder = path.join(stage.folder, 'out');
    mkdirSync(folder);
    writeFileSync(path.join(folder, 'thesis.txt'), 'x');
    const { code, stderr } = await stage.command('export', 'parquet', 'out');
    expect([code, stderr]).toEqual([2, expect.stringMatching(/thesis\.txt \[export_place_taken\]\n {2}→ /)]);
    expect(filesBelow(folder)).toEqual(['thesis.txt']);
  });

  it('is refused if its manifest is none of ours, or is that of another source', async () => {
    const stage = await ownStage(SQLITE, RECORDS);
    const folder = path.join(stage.folder, 'out');
    mkdirSync(folder);
    writeFileSync(path.join(folder, 'manifest.json'), '{"name":"app"}');
    expect(await stage.command('export', 'csv', 'out')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('[export_place_taken]'),
    });
    expect((await stage.command('export', 'csv', 'other')).code).toBe(0);
    const other = path.join(stage.folder, 'other', 'manifest.json');
    writeFileSync(other, readFileSync(other, 'utf8').replace('"source": "blog"', '"source": "shop"'));
    expect(await stage.command('export', 'csv', 'other')).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/source shop.*\[export_place_taken\]/),
    });
  });

  it('may hold files of somebody else beside an export, which stay', async () => {
    const stage = await ownStage(SQLITE, RECORDS);
    const folder = path.join(stage.folder, 'out');
    expect((await stage.command('export', 'csv', 'out')).code).toBe(0);
    writeFileSync(path.join(folder, 'README.txt'), 'x');
    expect((await stage.command('export', 'parquet', 'out')).code).toBe(0);
    const listed = manifestIn(folder).tables.flatMap(({ files }) => files.map((file) => file.path));
    expect(filesBelow(folder).toSorted()).toEqual(['README.txt', 'manifest.json', ...listed].toSorted());
    expect(listed.every((file) => file.endsWith('.parquet'))).toBe(true);
  });

  it('is a folder in which this user may write', async () => {
    const stage = await ownStage(SQLITE, RECORDS);
    writeFileSync(path.join(stage.folder, 'file'), 'x');
    for (const place of ['file', 'file/below', '/proc/out']) {
      const { code, stderr } = await stage.command('export', 'csv', place);
      expect([place, code, stderr]).toEqual([place, 2, expect.stringMatching(/\[export_unwritable\]\n {2}→ /)]);
    }
  });

  it('is held by a process that lives', async () => {
    const stage = await ownStage(SQLITE, RECORDS);
    const folder = path.join(stage.folder, 'out');
    expect((await stage.command('export', 'csv', 'out')).code).toBe(0);
    const lock = path.join(folder, '.content-sync-export.lock');
    const { placeOfProcess } = await import('../../src/state/process-lookup.ts');
    // The one that started the tests lives; and a process of that number does not.
    for (const [pid, expected] of [
      [process.ppid, 1],
      [2 ** 22 + 1, 0],
    ] as const) {
      writeFileSync(lock, JSON.stringify({ pid, host: placeOfProcess(false) }));
      const { code, stderr } = await stage.command('export', 'csv', 'out', '--full');
      expect([code, stderr.includes('export_busy')]).toEqual([expected, expected === 1]);
    }
    expect(filesBelow(folder)).not.toContain('.content-sync-export.lock');
  });

  it('is not needed to know that a view is not there', async () => {
    const stage = await ownStage(SQLITE, RECORDS);
    const { code, stderr } = await stage.command('export', 'csv', 'out', '--tables', 'content_live,contents');
    expect([code, stderr]).toEqual([
      2,
      expect.stringMatching(/no view "contents" to export \[export_unknown_table\]\n {2}→ there are .*content_live/),
    ]);
    expect(filesBelow(path.join(stage.folder, 'out'))).toEqual([]);
  });

  it('may be read-only beside a warehouse that is: nothing is made there', async () => {
    const stage = await ownStage(SQLITE, RECORDS);
    const before = filesBelow(stage.folder);
    chmodSync(stage.file, 0o400);
    expect((await stage.command('export', 'ndjson', 'out', '--json')).code).toBe(0);
    expect(filesBelow(stage.folder).filter((file) => !file.startsWith('out'))).toEqual(before);
  });
});
