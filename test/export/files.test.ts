import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { eitherDatabase } from '../support/databases.ts';
import { fileRow, hashOf, putFiles } from '../support/file-rows.ts';
import { journey } from '../support/journey.ts';

const EITHER = eitherDatabase(import.meta.filename);

it.each(EITHER)('files are exported as their views show them, on $name', { timeout: 60_000 }, async (database) => {
  const stage = await journey({
    database,
    sandbox: { generate: { images: 3 } },
    source: { files: { store: 'disk:pictures' } },
  });
  await stage.run('backfill', { resources: ['images'] });
  const app = await stage.open();
  const change = '2025-11-25 00:00:00.000';
  const rows = [
    fileRow('img_000000000', { valid_to: change, sha256: hashOf('first') }),
    fileRow('img_000000000', { version: 2, valid_from: change }),
    fileRow('img_000000001'),
  ];
  await putFiles(app, rows).finally(() => app.close());
  const place = path.join(stage.folder, 'out');
  const exported = async (...args: string[]): Promise<number | null> =>
    (await stage.command('export', 'ndjson', place, ...args)).code;
  const linesOf = (view: string): unknown[] => {
    const files = readdirSync(place, { recursive: true, encoding: 'utf8' }).filter(
      (name) => name.split(path.sep).includes(view) && name.endsWith('.ndjson'),
    );
    return files.flatMap((name) =>
      readFileSync(path.join(place, name), 'utf8')
        .trim()
        .split('\n')
        .map((line): unknown => JSON.parse(line)),
    );
  };
  expect(await exported()).toBe(0);
  expect(linesOf('images_files_live')).toEqual([
    expect.objectContaining({
      images_id: 'img_000000000',
      sha256: hashOf('img_000000000'),
      bytes: 1_000,
      width: 640,
    }),
    expect.objectContaining({ images_id: 'img_000000001', status: 'stored', type: 'image/png', valid_to: null }),
  ]);
  // A second time nothing has changed, and what is not among the usual views is written when it is named.
  expect(await exported('--tables', 'images_files')).toBe(0);
  expect(linesOf('images_files')).toHaveLength(3);
});
