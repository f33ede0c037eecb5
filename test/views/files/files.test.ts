import { describe, expect, it } from 'vitest';
import type { FileRow } from '../../../src/database/own-tables.ts';
import { DATABASES, type TestDatabase } from '../../support/databases.ts';
import { fileRow, hashOf, putFiles } from '../../support/file-rows.ts';
import { clockShowing } from '../../support/hurried-clock.ts';
import { journey, type Journey } from '../../support/journey.ts';
import { codeBlocks, readPage } from '../../support/readme.ts';
import { asking } from '../ask.ts';

const STORED = { files: { store: 'disk:files' } };
const FIRST = Date.parse('2025-11-10T00:00:00Z');
const LATER = Date.parse('2025-12-01T00:00:00Z');

async function ask(database: TestDatabase, stage: Journey, query: string): Promise<unknown[]> {
  const [rows] = await asking(database, stage)([query]);
  if (rows === undefined || rows instanceof Error) throw rows ?? new Error('not asked');
  return rows;
}

async function viewNames(database: TestDatabase, stage: Journey): Promise<string[]> {
  const query =
    database.name === 'sqlite'
      ? "SELECT name FROM sqlite_schema WHERE type = 'view' AND name LIKE 'images_files%' ORDER BY name"
      : "SELECT relname AS name FROM pg_class WHERE relkind = 'v' AND relnamespace = current_schema()::regnamespace AND relname LIKE 'images_files%' ORDER BY relname";
  const rows = await ask(database, stage, query);
  return rows.map((row) => String(Object.values(row ?? {})[0]));
}

async function put(stage: Journey, rows: readonly FileRow[]): Promise<void> {
  const app = await stage.open();
  await putFiles(app, rows).finally(() => app.close());
}

async function run(stage: Journey, at = FIRST): Promise<void> {
  const report = await stage.run('backfill', { clock: clockShowing(() => at), resources: ['content', 'images'] });
  expect(report.resources.map(({ status }) => status)).not.toContain('failed');
}

const post = (id: string, title: string, image_ids: readonly string[]) => ({ id, title, image_ids });

/** Two posts with a history, four images, and what their files held. */
async function blog(database: TestDatabase): Promise<Journey> {
  const stage = await journey({ database, source: STORED, sandbox: { generate: { images: 40 } } });
  for (const id of ['a', 'b', 'c', 'd']) stage.sandbox.store.put('images', { id, has_file: false });
  stage.sandbox.store.put('content', post('p', 'Before', ['b', 'a']));
  stage.sandbox.store.put('content', post('q', 'Without', []));
  await run(stage);
  stage.sandbox.store.put('content', post('p', 'Behind', ['c']));
  stage.sandbox.store.remove('images', 'd');
  await run(stage, LATER);
  await run(stage, LATER + 1_000);
  const change = '2025-11-25 00:00:00.000';
  await put(stage, [
    fileRow('a', { valid_to: change, sha256: hashOf('first a'), bytes: 9_000 }),
    fileRow('a', { version: 2, valid_from: change, bytes: 700, width: 320 }),
    fileRow('b', { status: 'failed', code: 'http_503', error: 'answered 503', attempts: 3, due_at: change }),
    fileRow('c', { sha256: hashOf('a'), bytes: 700 }),
    fileRow('c', { position: 1, status: 'gone', sha256: null, bytes: null, type: null, store: null, fetched_at: null }),
    fileRow('d', { bytes: 10_000 }),
  ]);
  return stage;
}

describe.for(DATABASES)('views of files on $name', (database) => {
  it('exist if the profile names files and there is a store', async () => {
    const stage = await journey({ database, sandbox: { generate: { content: 1, images: 2 } } });
    await run(stage);
    expect(await viewNames(database, stage)).toEqual([]);
    stage.setSource(STORED);
    await run(stage);
    expect(await viewNames(database, stage)).toEqual(['images_files', 'images_files_live']);
  });

  it('stay after the store is removed, if files were copied', async () => {
    const stage = await journey({ database, sandbox: { generate: { images: 2 } } });
    await run(stage);
    await put(stage, [fileRow('img_000000000')]);
    // Another run finds something to do with the views only where the tables or the profile have changed.
    stage.setProfile({ resources: { images: { files: { at: '/images/{id}/file', when: 'has_file' } } } });
    stage.sandbox.store.put('images', { id: 'new', has_file: false, novel: 'a column' });
    await run(stage);
    expect(await viewNames(database, stage)).toEqual(['images_files', 'images_files_live']);
    expect(await ask(database, stage, 'SELECT images_id FROM images_files_live')).toEqual([
      { images_id: 'img_000000000' },
    ]);
  });

  it('show all contents, and the current files of live records', async () => {
    const stage = await blog(database);
    const columns = 'images_id, position, sha256, bytes, type, status, error, valid_from, valid_to';
    const rows = await ask(
      database,
      stage,
      `SELECT ${columns} FROM images_files WHERE images_id = 'a' ORDER BY valid_from`,
    );
    const shared = { images_id: 'a', position: 0, type: 'image/png', status: 'stored', error: null };
    const change = '2025-11-25T00:00:00.000Z';
    expect(rows).toEqual([
      { ...shared, sha256: hashOf('first a'), bytes: 9_000, valid_from: '2025-11-01T00:00:00.000Z', valid_to: change },
      { ...shared, sha256: hashOf('a'), bytes: 700, valid_from: change, valid_to: null },
    ]);
    const live = 'SELECT images_id, position, bytes FROM images_files_live ORDER BY images_id, position';
    expect(await ask(database, stage, live)).toEqual([
      { images_id: 'a', position: 0, bytes: 700 },
      { images_id: 'b', position: 0, bytes: 1_000 },
      { images_id: 'c', position: 0, bytes: 700 },
      { images_id: 'c', position: 1, bytes: null },
    ]);
    const told = `SELECT column_name, "references" AS key FROM sync_dictionary WHERE table_name = 'images_files' AND description IS NOT NULL ORDER BY column_name`;
    expect(await ask(database, stage, told)).toHaveLength(15);
    expect(await ask(database, stage, told)).toContainEqual({ column_name: 'images_id', key: 'images.id' });
  });

  it('answer the questions of the README', async () => {
    const stage = await blog(database);
    const readme = readPage('src/views/README.md');
    const query = (heading: string): string => {
      const blocks = codeBlocks(readme.section(heading), 'sql');
      return (database.name === 'sqlite' ? blocks.at(0) : blocks.at(-1)) ?? '';
    };
    const size = { width: 640, height: 480 };
    expect(await ask(database, stage, query('What a post showed at a moment'))).toEqual([
      { id: 'p', title: 'Before', image_id: 'b', sha256: hashOf('b'), ...size },
      { id: 'p', title: 'Before', image_id: 'a', sha256: hashOf('first a'), ...size },
    ]);
    expect(await ask(database, stage, query('Pictures that are missing'))).toEqual([
      { images_id: 'b', status: 'failed', error: 'answered 503', sha256: hashOf('b') },
      { images_id: 'c', status: 'gone', error: null, sha256: null },
    ]);
    expect(await ask(database, stage, query('Largest pictures'))).toEqual([
      { sha256: hashOf('b'), bytes: 1_000, ...size, shown_by: 1 },
      { sha256: hashOf('a'), bytes: 700, ...size, shown_by: 2 },
    ]);
  });
});
