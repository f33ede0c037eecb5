import { describe, expect, it } from 'vitest';
import type { Responder } from '../pagination/listing-server.ts';
import { eitherDatabase } from '../support/databases.ts';
import { ownService } from '../support/own-service.ts';

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
      incremental: { param: 'body:filter.from', lookback: '1s' },
      page: { style: 'cursor', cursor_param: 'body:page.after', size_param: 'body:page.size', size: 5 },
    };
    const stage = await ownService(database, profile, search(records, asked));
    await stage.run('backfill', { stopAfter: 1 });
    const places = await stage.column('SELECT walk_position FROM _sync_checkpoints');
    const values = { 'body:page.size': 5, 'body:page.after': 'behind 5' };
    expect(places).toEqual([JSON.stringify({ url: '/v1/report', values })]);
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
