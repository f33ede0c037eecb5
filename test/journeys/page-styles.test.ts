import { describe, expect, it } from 'vitest';
import type { Responder } from '../extract/listing-server.ts';
import { eitherDatabase, SQLITE } from '../support/databases.ts';
import { sampled } from '../support/length.ts';
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

describe.each(sampled(Object.entries(DIALECTS), 4))('a listing by %s', (_, dialect) => {
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
    expect((await stage.command('check')).code).toBe(0);
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

/** A search by POST that takes filter and cursor in its body, and a key beside them. */
function search(records: readonly { id: number; at: string }[], asked: Record<string, unknown>[]): Responder {
  return (_url, _count, request) => {
    const body: { key?: string; filter?: { from?: string }; page: { after?: string } } = JSON.parse(
      request?.body ?? '',
    );
    asked.push(body);
    if (body.key !== 'canary-in-the-body') return { status: 401, body: {} };
    const from = Number(body.page.after?.slice('behind '.length) ?? 0);
    const found = records.filter(({ at }) => at >= (body.filter?.from ?? ''));
    const data = found.slice(from, from + 5);
    return { body: { data, next_cursor: from + 5 < found.length ? `behind ${from + 5}` : null } };
  };
}

describe.for(eitherDatabase(import.meta.filename))('a search by POST, on $name', (database) => {
  it('is asked for changes in its body; no key of the profile is in what is stored of its place', async () => {
    const records = Array.from({ length: 23 }, (_, at) => ({ id: at, at: `2026-01-01T00:00:${at + 10}Z` }));
    const asked: Record<string, unknown>[] = [];
    const profile = {
      method: 'POST',
      body: { key: 'canary-in-the-body', filter: { kind: 'post' } },
      updated: 'at',
      incremental: { param: 'body:filter.from', overlap: '1s' },
      page: { style: 'cursor', cursor_param: 'body:page.after', size_param: 'body:page.size', size: 5 },
    };
    const stage = await ownService(database, profile, search(records, asked));
    const stop = new AbortController();
    await stage.run('backfill', { signal: stop.signal, watcher: { page: () => stop.abort() } });
    const places = await stage.read((db) => db.prepare('SELECT walk_position FROM _sync_checkpoints').pluck().all());
    expect(decodeURIComponent(String(places))).toBe('/v1/report#{"body:page.size":5,"body:page.after":"behind 5"}');
    expect((await stage.run('backfill')).status).toBe('ok');
    records.push({ id: 99, at: '2026-01-02T00:00:00Z' });
    const before = asked.length;
    expect((await stage.run('sync')).resources).toMatchObject([{ status: 'ok', mode: 'incremental', inserted: 1 }]);
    expect(asked[before]).toEqual({
      key: 'canary-in-the-body',
      filter: { kind: 'post', from: expect.stringMatching(/^2026-01-01T00:00:3/) },
      page: { size: 5 },
    });
  });
});
