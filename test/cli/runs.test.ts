import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { eitherDatabase } from '../support/databases.ts';
import { ownService } from '../support/own-service.ts';

const listed = z.object({
  source: z.string(),
  runs: z.array(z.looseObject({ run_id: z.string(), status: z.string() })),
});

describe.for(eitherDatabase(import.meta.filename))('content-sync runs, on $name', (database) => {
  it('lists what ran, newest first, and tells all of one, with no request to the service', async () => {
    let [status, asked] = [200, 0];
    const data: object[] = [{ id: 'a', title: 'one' }];
    const stage = await ownService(database, {}, () => {
      asked += 1;
      const isFlaky = status === 200 && asked % 2 === 1;
      const body = { data, next_cursor: null };
      return { status: isFlaky ? 503 : status, headers: { 'x-request-id': `req-${asked}` }, body };
    });
    await stage.run('backfill');
    await stage.run('backfill');
    await stage.run('backfill');
    data.push({ title: 'without an id' }, { id: 'b', title: 'two', more: 1 });
    await stage.run('backfill');
    status = 404;
    await stage.run('backfill');
    const before = asked;

    const list = async (...args: string[]) => {
      const { code, stdout, stderr } = await stage.command('runs', ...args, '--json');
      expect([code, stderr]).toEqual([0, '']);
      return listed.parse(JSON.parse(stdout));
    };
    const { source, runs } = await list();
    expect(source).toBe('blog');
    expect(runs.map((run) => run.status)).toEqual(['failed', 'partial', 'ok', 'ok']);
    expect((await list('report', '--limit', '1')).runs).toEqual(runs.slice(0, 1));
    expect((await list('--failed')).runs).toEqual(runs.slice(0, 2));
    expect((await list('--since', '1h')).runs).toEqual(runs);
    expect((await list('--since', '2999-01-01')).runs).toEqual([]);
    const shown = await stage.command('runs');
    expect(shown.stdout).toMatch(/failed .*not_found/);

    const [failed, partial, quiet] = runs.map(({ run_id }) => run_id);
    const details = async (id = '') => JSON.parse((await stage.command('runs', 'show', id, '--json')).stdout).resources;
    expect(await details(failed)).toMatchObject([
      { error: { code: 'not_found', hint: expect.any(String), request_id: `req-${before}` }, outcomes: { stop: 1 } },
    ]);
    expect(await details(partial)).toMatchObject([
      {
        rejected: 1,
        rejects: [{ reason: 'id_missing', record_id: null, is_resolved: false }],
        schema_changes: [{ table: 'report', column: 'more', from: null, to: 'integer' }],
        outcomes: { ok: 1, retry: 1 },
      },
    ]);
    expect(await details(quiet)).toMatchObject([{ requests: 2, outcomes: { ok: 1, retry: 1 } }]);
    const text = (await stage.command('runs', 'show', failed ?? '')).stdout;
    expect(text).toContain(`request id  req-${before}`);
    expect((await stage.command('runs', 'show', partial ?? '')).stdout).toMatch(/rejected {4}id_missing/);
    expect(asked).toBe(before);

    const unknown = await stage.command('runs', 'show', '20200101T000000Z-00000000');
    expect(unknown).toMatchObject({ code: 2, stdout: '' });
    expect((await stage.command('runs', '--since', 'yesterday')).code).toBe(2);
    expect((await stage.command('runs', 'nothing')).code).toBe(2);
  });
});
