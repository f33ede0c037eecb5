import { renameSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { timestampMs } from '../../../src/model/timestamp-text.ts';
import { eitherDatabase } from '../../support/databases.ts';
import { picture } from './picture-service.ts';
import { pictureStage } from './picture-stage.ts';

const OWN = { at: '/images/{id}/file', when: 'has_file' };
const MINUTE = 60_000;

describe.each(eitherDatabase(import.meta.filename))('files in trouble, on $name', (database) => {
  it('that fail make a run partial, are tried again after growing pauses, and are well in the end', async () => {
    const stage = await pictureStage(database, { files: OWN });
    const { service } = stage;
    for (const id of ['a', 'b']) {
      service.put({ id, has_file: true });
      service.files.set(`/v1/images/${id}/file`, picture(id));
    }
    let broken = true;
    service.instead = (_, response, url) => broken && url.pathname.includes('/b/') && !!response.writeHead(503).end();
    const first = await stage.walk('backfill');
    expect(first).toMatchObject({ status: 'partial', files: { stored: 1, failed: 1 } });
    expect(first.warnings?.map(({ code }) => code)).toEqual(['files_failed']);
    // Whoever looks at the run next day sees it as well.
    const kept = await stage.read((db) => db.prepare('SELECT status, warnings FROM _sync_runs').all());
    expect(kept).toEqual([{ status: 'partial', warnings: JSON.stringify(first.warnings) }]);
    expect((await stage.command('runs')).stdout).toContain('files_failed');
    const [, failed] = await stage.rows();
    expect(failed).toMatchObject({ record_id: 'b', status: 'failed', attempts: 1, sha256: null });
    // Not due yet: nothing is asked, and the run still says so.
    const asked = service.asked.length;
    expect(await stage.walk()).toMatchObject({ status: 'partial', files: { stored: 1, failed: 1 } });
    expect(service.asked).toHaveLength(asked);
    await stage.write(`UPDATE _sync_files SET due_at = '2026-01-01 00:00:00' WHERE status = 'failed'`);
    const before = Date.now();
    await stage.walk();
    const again = (await stage.rows())[1];
    expect(again).toMatchObject({ status: 'failed', attempts: 2 });
    expect(timestampMs(again?.due_at ?? '') - before).toBeGreaterThan(2 * MINUTE);
    broken = false;
    await stage.write(`UPDATE _sync_files SET due_at = '2026-01-01 00:00:00' WHERE status = 'failed'`);
    expect(await stage.walk()).toMatchObject({ status: 'ok', files: { stored: 2, failed: 0 } });
    expect((await stage.rows())[1]).toMatchObject({
      status: 'stored',
      attempts: 0,
      error: null,
      code: null,
      due_at: null,
    });
  });

  it('that the profile does not admit are refused until it does', async () => {
    const stage = await pictureStage(database, { files: { ...OWN, max_bytes: '1kB' } });
    const { service } = stage;
    service.put({ id: 'large', has_file: true });
    service.put({ id: 'page', has_file: true });
    service.files.set('/v1/images/large/file', picture('x'.repeat(3_000)));
    service.files.set('/v1/images/page/file', Buffer.from('<!doctype html><p>not found</p>'));
    const first = await stage.walk('backfill');
    expect(first).toMatchObject({ status: 'partial', files: { refused: 2 } });
    expect(first.warnings?.map(({ code }) => code)).toEqual(['files_refused']);
    expect((await stage.rows()).map(({ code }) => code)).toEqual(['file_too_large', 'file_type']);
    expect(stage.objects()).toEqual([]);
    const asked = service.asked.length;
    await stage.walk();
    expect(service.asked).toHaveLength(asked);
    stage.setProfile({ resources: { images: { files: { ...OWN, max_bytes: '1MB' } } } });
    expect(await stage.walk()).toMatchObject({ status: 'partial', files: { stored: 1, refused: 1 } });
  });

  it('that the service no longer has leave their last content as an earlier one', async () => {
    const stage = await pictureStage(database, { files: OWN });
    const { service } = stage;
    service.put({ id: 'a', has_file: true });
    service.files.set('/v1/images/a/file', picture('one'));
    await stage.walk('backfill');
    service.put({ id: 'a', has_file: true, n: 2 });
    service.files.delete('/v1/images/a/file');
    expect(await stage.walk()).toMatchObject({ status: 'ok', files: { stored: 0, gone: 1 } });
    const [earlier, now] = await stage.rows();
    expect(earlier).toMatchObject({ version: 1, status: 'stored' });
    expect(earlier?.valid_to).not.toBeNull();
    expect(now).toMatchObject({ version: 2, status: 'gone', sha256: null, code: 'file_gone', valid_to: null });
  });

  it('at a signed address that has run out are asked for at the one that their record has by now', async () => {
    const stage = await pictureStage(database, { files: { at: 'json:url', when: null } });
    const { service } = stage;
    let valid = 1;
    service.instead = (_, response, url) =>
      url.searchParams.get('X-Amz-Signature') !== `s${valid}` &&
      !!response.writeHead(403, { 'content-type': 'application/xml' }).end('<Error><Code>AccessDenied</Code></Error>');
    // Signed anew in each answer; by the time that a listing is read, its signatures have run out.
    service.answered = (record, isListed) => {
      const url = `${service.cdn.url}/a.png?X-Amz-Expires=60&X-Amz-Signature=s${valid}`;
      if (isListed) valid += 1;
      return { ...record, url };
    };
    service.files.set('/a.png', picture('signed'));
    service.put({ id: 'a' });
    expect(await stage.walk('backfill')).toMatchObject({ status: 'ok', files: { fetched: 1, stored: 1 } });
    expect(service.asked).toEqual(['403 /a.png', '200 /a.png']);
    // A new signature makes it no other file.
    service.put({ id: 'a' });
    expect(await stage.walk()).toMatchObject({ status: 'ok', files: { fetched: 0, unchanged: 1, stored: 1 } });
    expect(service.asked.slice(2)).toEqual(['403 /a.png', '304 /a.png']);
    expect(await stage.rows()).toHaveLength(1);
  });

  it('whose store was moved are found there, and not fetched again', async () => {
    const stage = await pictureStage(database, { files: OWN });
    const { service } = stage;
    service.put({ id: 'a', has_file: true });
    service.files.set('/v1/images/a/file', picture('one'));
    await stage.walk('backfill');
    renameSync(path.join(stage.folder, 'files'), path.join(stage.folder, 'moved'));
    stage.setSource({ files: { store: 'disk:moved', allow_hosts: ['127.0.0.1'] } });
    expect(await stage.walk()).toMatchObject({ status: 'ok', files: { fetched: 0, unchanged: 1, stored: 1 } });
    expect((await stage.rows())[0]).toMatchObject({ store: 'disk:moved', version: 1 });
    expect(service.asked.at(-1)).toBe('304 /v1/images/a/file');
  });

  it('may be asked for again after a time, although their record has not changed', async () => {
    const stage = await pictureStage(database, { files: OWN, settings: { recheck: '1d' } });
    const { service } = stage;
    service.put({ id: 'a', has_file: true });
    service.files.set('/v1/images/a/file', picture('one'));
    await stage.walk('backfill');
    service.files.set('/v1/images/a/file', picture('two'));
    await stage.walk();
    expect(await stage.shown('a')).toBe('one');
    await stage.write(`UPDATE _sync_files SET fetched_at = '2026-01-01 00:00:00'`);
    expect(await stage.walk()).toMatchObject({ status: 'ok', files: { fetched: 1, stored: 1 } });
    expect(await stage.shown('a')).toBe('two');
  });
});
