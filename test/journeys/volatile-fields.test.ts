import { describe, expect, it } from 'vitest';
import { DATABASES } from '../support/databases.ts';
import { ownService } from '../support/own-service.ts';

const KINDS = DATABASES.flatMap((database) => (['all', 'none'] as const).map((history) => ({ database, history })));

describe.for(KINDS)('fields that change with every response, $database.name, $history', ({ database, history }) => {
  it('are named by a warning; with compare: false they are stored, and a change of them alone is none', async () => {
    let responses = 0;
    let title = 'old';
    const record = (id: number): object => ({
      id,
      title,
      updated_at: title === 'old' ? '2026-01-01T00:00:00Z' : '2026-01-02T00:00:00Z',
      views: responses,
      image: { alt: 'x', url: `https://cdn.example/${id}.png?signature=${responses}` },
      files: [{ name: 'a', url: `https://cdn.example/${id}.pdf?signature=${responses}` }],
    });
    const all = Array.from({ length: 20 }, (_, at) => at + 1);
    const resource = { path: '/report', page: { style: 'cursor' }, item: '/report/{id}', history };
    const stage = await ownService(database, resource, ({ pathname }) => {
      responses += 1;
      const [, id] = /\/report\/(\d+)$/.exec(pathname) ?? [];
      return { body: id === undefined ? { data: all.map(record), next_cursor: null } : record(Number(id)) };
    });
    const backfill = async () => (await stage.run('backfill')).resources[0];
    await backfill();
    const [warning] = (await backfill())?.warnings ?? [];
    // Without bodies nothing shows which fields have changed.
    const named = 'fields: { views: { compare: false }, image.url: { compare: false }, files.url: { compare: false } }';
    expect([warning?.code, warning?.hint.includes(named)]).toEqual(
      history === 'all' ? ['fields_volatile', true] : [undefined, undefined],
    );

    const fields = { views: { compare: false }, 'image.url': { compare: false }, 'files.url': { compare: false } };
    stage.setProfile({ resources: { content: null, images: null, analytics: null, report: { ...resource, fields } } });
    await backfill();
    expect(await backfill()).toMatchObject({ status: 'ok', updated: 0, unchanged: 20 });
    expect(await stage.command('verify')).toMatchObject({ code: 0 });

    title = 'new';
    const before = responses;
    expect(await backfill()).toMatchObject({ status: 'ok', updated: 20 });
    const rows = await stage.read((db) => db.prepare<[], { views: number }>('SELECT views FROM report').all());
    expect(Math.min(...rows.map(({ views }) => views))).toBeGreaterThan(before);
    expect(await stage.command('verify', '--internal')).toMatchObject({ code: 0 });
    await stage.write("UPDATE report SET title = 'damaged' WHERE id = '3'");
    expect(await stage.command('verify')).toMatchObject({ code: 3 });
  });
});
