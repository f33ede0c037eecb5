import { describe, expect, it } from 'vitest';
import { ask } from '../support/asking.ts';
import { DATABASES } from '../support/databases.ts';
import { ownService } from '../support/own-service.ts';

describe.for(DATABASES)('times with microseconds, on $name', (database) => {
  it('are kept where the database has them, cut and told where not, and never skip a change', async () => {
    const times = new Map([1, 2, 3].map((id) => [id, `2026-01-01T00:00:00.12345${id}Z`]));
    // As a service that compares texts.
    const stage = await ownService(
      database,
      { history: 'all', incremental: { param: 'since', format: 'as_sent', overlap: '0s' } },
      ({ searchParams }) => {
        const since = searchParams.get('since') ?? '';
        const data = [...times].flatMap(([id, updated_at]) => (updated_at >= since ? [{ id, updated_at }] : []));
        return { body: { data, next_cursor: null } };
      },
    );
    const isWhole = database.name === 'postgres';
    const [first] = (await stage.run('backfill')).resources;
    expect([first?.status, (first?.warnings ?? []).map(({ code }) => code)]).toEqual([
      'ok',
      isWhole ? [] : ['times_cut'],
    ]);
    times.set(1, '2026-01-01T00:00:00.123459Z');
    const [second] = (await stage.run('sync')).resources;
    expect(second).toMatchObject({ status: 'ok', mode: 'incremental', updated: 1 });
    expect(second).not.toHaveProperty('warnings');
    const shown = async (view: string) =>
      (await ask(stage.address, `SELECT updated_at FROM ${view} ORDER BY 1`)).map((row) =>
        row['updated_at']?.replace(/\+00$/, ''),
      );
    const kept = isWhole ? ['.123452', '.123453', '.123459'] : ['.123', '.123', '.123'];
    for (const view of ['report', 'report_live', 'report_history WHERE is_current']) {
      expect(await shown(view)).toEqual(kept.map((fraction) => `2026-01-01 00:00:00${fraction}`));
    }
    expect(await stage.command('verify')).toMatchObject({ code: 0 });
  });
});
