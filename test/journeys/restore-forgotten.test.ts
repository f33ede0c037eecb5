import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it, onTestFinished } from 'vitest';
import { SQLITE } from '../support/databases.ts';
import { findInFolder } from '../support/find-bytes.ts';
import { eventBody, servingStage, until } from '../support/serving.ts';

const KEY = 'a-privacy-key-of-this-test';
const ID = 'person-7f3a91c2';
const TOLD = 'person-only-told-55';
const NEEDLES = [ID, TOLD, 'needle-old', 'needle-child', 'needle-told'];

describe('a backup from before records were erased', { timeout: 60_000 }, () => {
  it('does not bring them back, also if it was taken while they were being erased', async () => {
    const stage = await servingStage({
      database: SQLITE,
      isInside: true,
      sandbox: { generate: { content: 12, images: 1, analytics: 1 } },
      profile: { resources: { content: { history: 'all' } } },
      source: { deletes: { max_part: 1 } },
      settings: { privacy_key: KEY },
    });
    const away = mkdtempSync(path.join(tmpdir(), 'content-sync-away-'));
    onTestFinished(() => rmSync(away, { recursive: true }));
    const [file, half] = [path.join(away, 'then.backup'), path.join(away, 'half.backup')];
    stage.write('content', ID, { note: 'needle-old', tags: ['needle-child'] });
    const serving = await stage.serve();
    await stage.fresh(serving);
    const body = eventBody({ resource: 'content', id: TOLD, note: 'needle-told' });
    expect(await serving.deliver({ id: 'msg-1', body })).toBe(202);
    await until('worked on', async () =>
      stage.readInbox((db) => db.prepare("SELECT 1 FROM _sync_deliveries WHERE state = 'waiting'").all().length === 0),
    );
    await serving.stop();
    expect(await stage.run('backup', file)).toMatchObject({ code: 0 });
    const found = (): string[] => findInFolder(stage.folder, NEEDLES);
    expect(found()).not.toEqual([]);
    expect(await stage.run('forget', 'content', ID, TOLD, '--yes', '--json')).toMatchObject({ code: 0 });
    expect(found()).toEqual([]);

    // Without the key nothing could tell them: nothing is changed.
    stage.configure({ settings: {} });
    const refused = await stage.run('restore', file);
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('[privacy_key]')]);
    stage.configure({});
    expect(found()).toEqual([]);

    const restored = await stage.run('restore', file);
    expect([restored.code, restored.stderr]).toEqual([0, '']);
    expect(restored.stdout).toContain('1 record of the backup had been erased since: it is erased again');
    expect(found()).toEqual([]);
    const rows = await stage.value('SELECT count(*) FROM content');
    expect(rows).toBe(12);
    const walked = await stage.run('backfill', 'content', '--json');
    expect(JSON.parse(walked.stdout)).toMatchObject({ status: 'ok', resources: [{ forgotten: 1 }] });
    expect(found()).toEqual([]);

    // As a kill in between leaves it: asked for, and nothing erased.
    const kept = path.join(away, 'kept');
    cpSync(stage.file(), kept);
    for (const place of [stage.file(), stage.inboxFile()]) rmSync(place);
    const gone = await stage.run('restore', file);
    expect([gone.code, gone.stderr]).toEqual([0, '']);
    expect(gone.stdout).toMatch(
      /→ erase records that were erased after .* again .*: the replaced warehouse was missing/,
    );
    const remembered = new Database(kept, { readonly: true });
    const [row] = remembered.prepare<[string], Record<string, unknown>>(FORGOTTEN).all(ID);
    remembered.close();
    const db = new Database(stage.file());
    db.prepare(ASKED).run({ ...row, record_id: ID });
    db.close();
    const made = await stage.run('backup', half);
    expect(made.stdout).toContain(
      '→ run content-sync forget content, then back up again: records that are to be erased may still be in the file',
    );
    expect(await stage.run('restore', half)).toMatchObject({ code: 0, stderr: '' });
    expect(findInFolder(stage.folder, [ID, 'needle-old', 'needle-child'])).toEqual([]);
  });
});

const FORGOTTEN = 'SELECT * FROM _sync_forgotten WHERE record_id IS NULL AND ? IS NOT NULL LIMIT 1';
const ASKED = `INSERT INTO _sync_forgotten (resource, fingerprint, key_mark, version, asked_at, record_id)
  VALUES (@resource, @fingerprint, @key_mark, @version, @asked_at, @record_id)`;
