import { describe, expect, it } from 'vitest';
import { eitherDatabase, type TestDatabase } from '../support/databases.ts';
import { findInFolder, findInPostgres } from '../support/find-bytes.ts';
import { ownStage, type OwnStage } from '../support/own-stage.ts';

const KEY = 'a-privacy-key-of-this-test';
const record = (id: number) => ({
  id,
  updated_at: `2024-01-0${id}T10:30:00.500Z`,
  name: `Name ${id % 2}`,
  seo: { slug: `slug-${id}` },
  authors: [{ handle: `handle-${id}` }],
});

const open = (database: TestDatabase, count = 4): Promise<OwnStage> =>
  ownStage(
    database,
    Array.from({ length: count }, (_, at) => record(at + 1)),
    { content: { history: 'all' }, source: { deletes: { max_part: 1 } }, settings: { privacy_key: KEY } },
  );

describe.for(eitherDatabase(import.meta.filename))('content-sync forget on $name', { timeout: 60_000 }, (database) => {
  it('erases nothing of what it does not know', async () => {
    const stage = await open(database);
    expect((await stage.command('forget', 'nothing', '1')).code).toBe(2);
    expect(await stage.command('forget', 'content', '')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('an id is empty'),
    });
    const none = await stage.command('forget', 'content', '--yes');
    expect([none.code, none.stdout]).toEqual([0, expect.stringContaining('→ nothing was to be erased')]);
    const absent = await stage.command('forget', 'content', `it's "neither"`, '--dry-run');
    expect([absent.code, absent.stdout]).toEqual([3, expect.stringContaining('→ 1 id is not in the copy')]);
    expect(absent.stdout).not.toContain('another process');
    expect(await stage.live()).toHaveLength(4);
  });

  it('erases what is deleted, names no id in its report, and does not block an id that is unknown', async () => {
    const stage = await open(database);
    stage.service.records.delete('3');
    expect(await stage.walk('backfill')).toMatchObject({ deleted: 1 });
    const refused = await stage.command('forget', 'content', '3', '--json');
    expect(refused).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('add --yes') });
    expect(await stage.rows("SELECT id FROM content WHERE id = '3'")).toHaveLength(1);
    const { code, stdout } = await stage.command('forget', 'content', '3', 'never-here-77', '--yes');
    expect([code, stdout]).toEqual([3, expect.stringContaining('1 record of content erased')]);
    expect(stdout).toContain('1 id is not in the copy, and not blocked');
    expect(stdout).toContain('Clean these yourself');
    expect(stdout).not.toContain('never-here-77');
    expect(await stage.rows("SELECT id FROM content WHERE id = '3'")).toEqual([]);
    expect(await stage.rows('SELECT * FROM _sync_deletes UNION ALL SELECT * FROM _sync_deletes')).toEqual([]);
    expect((await stage.command('forget', 'content', '3', '--yes')).code).toBe(0);
    stage.service.put({ ...record(3), id: 'never-here-77' }, { ...record(3), name: 'back again' });
    const listening = await stage.listen();
    expect(await listening.hear('3')).toEqual(['forgotten']);
    const [delivery] = await listening.rows();
    expect(delivery).toMatchObject({ state: 'done', record_id: null, headers: '{}', size: 0 });
    await listening.close();
    expect(await stage.walk('backfill')).toMatchObject({ status: 'ok', forgotten: 1, inserted: 1 });
    expect(await stage.live()).toEqual(['1', '2', '4', 'never-here-77']);
    // Nothing is left to be done.
    const again = await stage.command('forget', 'content', '--json');
    expect(JSON.parse(again.stdout)).toMatchObject({ outcome: 'erased', records: 0 });
  });

  it.each([
    ['a number in a body', '{"url":"/content","values":{"body.after":2}}'],
    ['a value of an earlier version', `/content#${encodeURIComponent('{"body.after":"2"}')}`],
  ])('erases positions and the doubt about a filter: %s', async (_, position) => {
    const stage = await open(database);
    await stage.write(
      "UPDATE _sync_checkpoints SET walk_mode = 'full', walk_position = ?, filter_doubt = ?",
      position,
      JSON.stringify({ filter: 'x', since: '2024-01-02', keys: ['2', '3'] }),
    );
    await stage.command('forget', 'content', '2', '--yes');
    expect(await stage.rows('SELECT walk_mode, walk_position, filter_doubt FROM _sync_checkpoints')).toEqual([
      {
        walk_mode: null,
        walk_position: null,
        filter_doubt: JSON.stringify({ filter: 'x', since: '2024-01-02', keys: ['***', '3'] }),
      },
    ]);
  });

  it('cleans the pages of the tables that quoted a record', async () => {
    const stage = await open(database);
    const at = "'2024-01-01 00:00:00.000'";
    await stage.write(
      `INSERT INTO _sync_verifications VALUES ('v', 'content', 'whole', 'differs', ${at}, ${at}, 1, 1, ?)`,
      '{"first":[{"kind":"other","id":"2","detail":"of handle-2"}]}',
    );
    expect((await stage.command('forget', 'content', '2', '--yes')).code).toBe(0);
    const [row] = await stage.rows('SELECT certificate FROM _sync_verifications');
    expect(row?.['certificate']).not.toContain('handle-2');
    const found =
      database.name === 'postgres'
        ? await findInPostgres(stage.address, ['handle-2'])
        : findInFolder(stage.folder, ['handle-2']);
    expect(found).toEqual([]);
  });
});
