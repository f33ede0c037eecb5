import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { DATABASES } from '../../support/databases.ts';
import { runCommand } from '../../support/command.ts';
import { tempFolder } from '../../support/temp-warehouse.ts';
import { picture } from './picture-service.ts';
import { pictureStage, type PictureStage } from './picture-stage.ts';

describe.each(DATABASES)('a store that two configs name, on $name', (database) => {
  async function stageAt(folder: string): Promise<PictureStage> {
    const files = { at: '/images/{id}/file', when: 'has_file' };
    const stage = await pictureStage(database, { files, settings: { store: `disk:${folder}`, grace: '0s' } });
    stage.service.put({ id: 'a', has_file: true });
    stage.service.files.set('/v1/images/a/file', picture('one'));
    return stage;
  }

  it('stays that of the first: the second may neither fetch to it nor remove from it, until it is given up', async () => {
    const folder = path.join(tempFolder(), 'files');
    const first = await stageAt(folder);
    expect(await first.walk('backfill')).toMatchObject({ status: 'ok', files: { fetched: 1 } });
    const mark = path.join(folder, '.owner');
    const owner = readFileSync(mark, 'utf8');
    const second = await stageAt(folder);
    await expect(second.walk('backfill')).rejects.toMatchObject({ code: 'file_store_taken', hint: expect.any(String) });
    expect(second.service.asked).toEqual([]);
    for (const args of [['prune'], ['verify', '--repair']]) {
      const { code, stderr } = await runCommand(['files', ...args, '--config', second.config], second.folder);
      expect([args, code, stderr]).toEqual([args, 2, expect.stringContaining('file_store_taken')]);
    }
    expect(await first.walk()).toMatchObject({ status: 'ok', files: { stored: 1 } });
    expect(readFileSync(mark, 'utf8')).toBe(owner);
    rmSync(mark);
    expect(await second.walk('backfill')).toMatchObject({ status: 'ok', files: { fetched: 1 } });
    expect(readFileSync(mark, 'utf8')).not.toBe(owner);
  });

  it('is taken over where a power cut has left an empty mark', async () => {
    const folder = tempFolder();
    writeFileSync(path.join(folder, '.owner'), '');
    const stage = await stageAt(folder);
    expect(await stage.walk('backfill')).toMatchObject({ status: 'ok', files: { fetched: 1 } });
    expect(readFileSync(path.join(folder, '.owner'), 'utf8')).toMatch(/^[0-9a-f-]{36}$/);
  });
});
