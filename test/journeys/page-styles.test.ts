import { describe, expect, it } from 'vitest';
import type { Responder } from '../extract/listing-server.ts';
import { SQLITE } from '../support/databases.ts';
import { ownService } from '../support/own-service.ts';
import { DIALECTS, type Dialect, type Listed } from './page-dialects.ts';

const numbered = (count: number): Listed[] =>
  Array.from({ length: count }, (_, at) => ({ id: at + 1, title: `title ${at + 1}` }));

async function stageOf({ fields, answer }: Dialect, records: readonly Listed[]) {
  const asked: string[] = [];
  const profile = { updated: null, item: '/report/{id}', incremental: null, ...fields };
  const respond: Responder = (url, _count, request = { method: '', headers: {}, body: '' }) => {
    asked.push(`${url.href} ${request.body} ${request.headers['x-after']?.toString()}`);
    const [, id] = /\/report\/(\d+)$/.exec(url.pathname) ?? [];
    if (id === undefined) return answer(records, url, request);
    const body = records.find((record) => record.id === Number(id));
    return body === undefined ? { status: 404, body: {} } : { body };
  };
  const stage = await ownService(SQLITE, profile, respond);
  const rows = () =>
    stage.read((db) =>
      db.prepare('SELECT CAST(id AS INTEGER) AS id, title FROM report WHERE _deleted_at IS NULL ORDER BY 1').all(),
    );
  return { ...stage, asked, rows };
}

describe.each(Object.entries(DIALECTS))('a listing by %s', (_, dialect) => {
  it('is copied, and again after changes', async () => {
    const records = numbered(20);
    const stage = await stageOf(dialect, records);
    expect((await stage.run('backfill')).status).toBe('ok');
    expect(await stage.rows()).toEqual(records);
    records.splice(1, 1);
    records.push({ id: 21, title: 'new' });
    Object.assign(records[0] ?? {}, { title: 'changed' });
    expect((await stage.run('sync')).status).toBe('ok');
    expect(await stage.rows()).toEqual(records);
  });

  it('is copied if it is less than a page', async () => {
    const stage = await stageOf(dialect, numbered(3));
    expect((await stage.run('backfill')).status).toBe('ok');
    expect(await stage.rows()).toEqual(numbered(3));
  });

  it('goes on where it was broken off', async () => {
    const records = numbered(23);
    const stage = await stageOf(dialect, records);
    const stop = new AbortController();
    let pages = 0;
    const page = (): void => {
      pages += 1;
      if (pages === 2) stop.abort();
    };
    const cut = await stage.run('backfill', { signal: stop.signal, watcher: { page } });
    const before = stage.asked.length;
    const { status } = await stage.run('backfill');
    expect(status).toBe('ok');
    expect(await stage.rows()).toEqual(records);
    if (cut.status === 'ok') return;
    expect(stage.asked[before]).not.toBe(stage.asked[0]);
  });
});
