import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { eitherDatabase } from '../support/databases.ts';
import { longOrShort } from '../support/length.ts';
import { ownStage } from '../support/own-stage.ts';
import { expectSnapshot, expectWhole, filesBelow, manyRows, monthly } from './standing.ts';
import { viewRows, parquetRows, tableIn } from './read-back.ts';

const ROWS = longOrShort(12_000, 4_000);

/** Waits until the folder holds a part that was not there; at most as long as the process runs. */
async function partAppears(folder: string, known: ReadonlySet<string>, ended: Promise<unknown>): Promise<void> {
  const over = ended.then(() => true);
  while (!filesBelow(folder).some((file) => !known.has(file) && file.includes('part-'))) {
    if (await Promise.race([delay(1, false), over])) return;
  }
}

describe.for(eitherDatabase(import.meta.filename))('kill -9 of an export of $name', (database) => {
  it('keeps the old or the new manifest with all its files, and the next export removes other files', async () => {
    const stage = await ownStage(database, monthly('x'));
    await manyRows(stage, ROWS);
    const folder = path.join(stage.folder, 'out');
    expect((await stage.command('export', 'parquet', 'out')).code).toBe(0);
    let killed = 0;
    for (let at = 0; at < longOrShort(40, 1); at += 1) {
      await stage.write('UPDATE content SET views = views + 1');
      const before = readFileSync(path.join(folder, 'manifest.json'), 'utf8');
      const command = stage.start('export', 'parquet', 'out');
      await partAppears(folder, new Set(filesBelow(folder)), command.ended);
      await delay(at * 7);
      command.kill('SIGKILL');
      const { signal } = await command.ended;
      if (signal === 'SIGKILL') killed += 1;
      expectWhole(folder);
      if (signal === 'SIGKILL' && existsSync(path.join(folder, '.content-sync-export.lock'))) {
        const after = readFileSync(path.join(folder, 'manifest.json'), 'utf8');
        if (after !== before) await sameAsViews();
      }
    }
    expect(killed).toBeGreaterThan(0);
    expect((await stage.command('export', 'parquet', 'out')).code).toBe(0);
    await expectSnapshot(database, stage, folder);

    async function sameAsViews(): Promise<void> {
      const rows = await viewRows(database, stage.address, tableIn(folder, 'content_live'));
      expect(await parquetRows(folder, 'content_live')).toEqual(rows);
    }
  });

  it('is not needed: SIGTERM keeps the previous export and removes new files', async () => {
    const stage = await ownStage(database, monthly('x'));
    expect((await stage.command('export', 'parquet', 'out')).code).toBe(0);
    const folder = path.join(stage.folder, 'out');
    const before = filesBelow(folder).toSorted();
    await manyRows(stage, longOrShort(50_000, 25_000));
    const command = stage.start('export', 'parquet', 'out');
    await partAppears(folder, new Set(before), command.ended);
    command.kill('SIGTERM');
    expect(await command.ended).toMatchObject({ code: 130, stderr: expect.stringContaining('"code":"interrupted"') });
    expect(filesBelow(folder).toSorted()).toEqual(before);
  });

  it('during the first export leaves a place that the next export accepts', async () => {
    const stage = await ownStage(database, monthly('x'));
    await manyRows(stage, ROWS);
    const folder = path.join(stage.folder, 'out');
    const command = stage.start('export', 'parquet', 'out');
    await partAppears(folder, new Set(), command.ended);
    command.kill('SIGKILL');
    await command.ended;
    expect(readdirSync(folder)).not.toContain('manifest.json');
    expect((await stage.command('export', 'parquet', 'out')).code).toBe(0);
    await expectSnapshot(database, stage, folder);
  });
});
