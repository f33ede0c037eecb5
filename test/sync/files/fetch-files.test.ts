import { describe, expect, it } from 'vitest';
import { eitherDatabase } from '../../support/databases.ts';
import { until } from '../../support/serving.ts';
import { picture, sha256 } from './picture-service.ts';
import { pictureStage } from './picture-stage.ts';

const OWN = { at: '/images/{id}/file', when: 'has_file' };

describe.each(eitherDatabase(import.meta.filename))('files of records, on $name', (database) => {
  it('are fetched once, and asked for again only if their record has changed', async () => {
    const stage = await pictureStage(database, { files: OWN });
    const { service } = stage;
    service.put({ id: 'a', has_file: true });
    service.put({ id: 'b', has_file: false });
    service.put({ id: 'c/d', has_file: true });
    service.files.set('/v1/images/a/file', picture('one'));
    service.files.set('/v1/images/c%2Fd/file', picture('other'));
    expect(await stage.walk('backfill')).toMatchObject({ status: 'ok', files: { fetched: 2, stored: 2, gone: 0 } });
    expect([await stage.shown('a'), await stage.shown('b'), await stage.shown('c/d')]).toEqual(['one', null, 'other']);
    await stage.walk();
    expect(service.asked).toHaveLength(2);
    // The record has changed, and its file has not.
    service.put({ id: 'a', has_file: true, alt: 'new words' });
    expect(await stage.walk()).toMatchObject({ status: 'ok', files: { fetched: 0, unchanged: 1, stored: 2 } });
    expect(service.asked.at(-1)).toBe('304 /v1/images/a/file');
    expect(await stage.rows()).toHaveLength(2);
  });

  it('keep their earlier contents when another one takes their place', async () => {
    const stage = await pictureStage(database, { files: OWN });
    const { service } = stage;
    service.put({ id: 'a', has_file: true });
    service.files.set('/v1/images/a/file', picture('one'));
    await stage.walk('backfill');
    service.put({ id: 'a', has_file: true, n: 2 });
    service.files.set('/v1/images/a/file', picture('two'));
    expect(await stage.walk()).toMatchObject({ status: 'ok', files: { fetched: 1, stored: 1 } });
    const [first, second, ...others] = await stage.rows();
    expect(others).toEqual([]);
    expect(first).toMatchObject({ version: 1, sha256: sha256(picture('one')), status: 'stored' });
    expect(second).toMatchObject({ version: 2, sha256: sha256(picture('two')), status: 'stored', valid_to: null });
    expect(first?.valid_to).toBe(second?.valid_from);
    expect(stage.objects()).toEqual([sha256(picture('one')), sha256(picture('two'))].toSorted());
  });

  it('are shown no more when their record is gone, and again when it is back', async () => {
    const stage = await pictureStage(database, { files: OWN });
    const { service } = stage;
    for (const id of ['a', 'b', 'c']) {
      service.put({ id, has_file: true });
      service.files.set(`/v1/images/${id}/file`, picture(id));
    }
    await stage.walk('backfill');
    const gone = service.records.get('a');
    service.records.delete('a');
    expect(await stage.walk('backfill')).toMatchObject({ status: 'ok', deleted: 1, files: { stored: 2 } });
    expect(await stage.shown('a')).toBeNull();
    service.put({ ...gone, id: 'a' });
    expect(await stage.walk('backfill')).toMatchObject({ status: 'ok', files: { stored: 3, unchanged: 1 } });
    expect(await stage.shown('a')).toBe('a');
    expect(service.asked.filter((line) => line.endsWith('/a/file'))).toEqual([
      '200 /v1/images/a/file',
      '304 /v1/images/a/file',
    ]);
  });

  it('come from several addresses of a record, each at its position', async () => {
    const stage = await pictureStage(database, {
      files: [
        { field: 'gallery', at: 'json:gallery[*].url', bytes: 'gallery[*].size' },
        { field: 'cover', at: 'json:cover' },
      ],
    });
    const { service } = stage;
    const { cdn, files } = service;
    const at = (name: string): object => ({ url: `${cdn.url}/${name}.png`, size: picture(name).length });
    for (const name of ['x', 'y', 'z']) files.set(`/${name}.png`, picture(name));
    files.set('/up/cover.png', picture('cover'));
    service.put({ id: 'a', gallery: [at('x'), { url: null }, at('y')], cover: '/up/cover.png' });
    expect(await stage.walk('backfill')).toMatchObject({ status: 'ok', files: { stored: 3 } });
    const shown = async (): Promise<(string | null)[]> => [
      await stage.shown('a', 'gallery', 0),
      await stage.shown('a', 'gallery', 1),
      await stage.shown('a', 'gallery', 2),
      await stage.shown('a', 'cover'),
    ];
    expect(await shown()).toEqual(['x', null, 'y', 'cover']);
    service.put({ id: 'a', gallery: [at('z'), at('y')], cover: '/up/cover.png' });
    expect(await stage.walk()).toMatchObject({ status: 'ok', files: { stored: 3 } });
    expect(await shown()).toEqual(['z', 'y', null, 'cover']);
    expect(stage.objects()).toHaveLength(4);
  });
});

describe.each(eitherDatabase(import.meta.filename))('two processes with files, on $name', (database) => {
  it('never fetch the same: the second one waits for the first', async () => {
    const stage = await pictureStage(database, { files: OWN });
    const { service } = stage;
    for (let n = 0; n < 30; n += 1) {
      service.put({ id: `r${n}`, has_file: true });
      service.files.set(`/v1/images/r${n}/file`, picture(`content ${n}`));
    }
    await stage.run('backfill');
    service.instead = (_, response, url) => {
      const bytes = service.files.get(url.pathname);
      setTimeout(() => response.end(bytes), 100);
      return true;
    };
    const first = stage.start('sync');
    await until('the first one is at work', () => service.asked.length > 0);
    const second = await stage.open();
    const { signal } = new AbortController();
    await expect(second.files.fetch({ resources: ['images'], signal })).rejects.toMatchObject({ code: 'lease_held' });
    await second.close();
    expect(await first.ended).toMatchObject({ code: 0 });
    expect(service.asked).toHaveLength(30);
    expect(await stage.walk()).toMatchObject({ status: 'ok', files: { stored: 30 } });
  });
});
