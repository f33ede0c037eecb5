import { describe, expect, it } from 'vitest';
import { ask } from '../support/asking.ts';
import { DATABASES, type TestDatabase } from '../support/databases.ts';
import { clockShowing } from '../support/hurried-clock.ts';
import type { Journey } from '../support/journey.ts';
import { ownService } from '../support/own-service.ts';

interface Row {
  id: string;
  modified: string;
  text?: string;
  [field: string]: unknown;
}

const FILTER = { param: 'since', lookback: '10m' };
const ZURICH = { modified: 'Europe/Zurich', 'visits.at': 'Europe/Zurich' };

/** A service in Zurich that writes and compares the time on its wall, a record a page; the test sets its clock, and ours. */
async function wallClock(database: TestDatabase, fields: Record<string, unknown>) {
  const state = { now: '2026-10-25T00:55:00Z', rows: [] as Row[] };
  const stage = await ownService(database, { updated: 'modified', incremental: FILTER, ...fields }, (url) => {
    const since = url.searchParams.get('since') ?? '';
    const at = Number(url.searchParams.get('cursor') ?? 0);
    const listed = state.rows.filter(({ modified }) => modified >= since);
    const body = { data: listed.slice(at, at + 1), next_cursor: at + 1 < listed.length ? String(at + 1) : null };
    return { headers: { date: new Date(state.now).toUTCString() }, body };
  });
  const clock = clockShowing(() => Date.parse(state.now));
  const run: Journey['run'] = (command, choices) => stage.run(command, { clock, ...choices });
  const all = (query: string): Promise<unknown[]> => stage.all(query);
  return { stage: { ...stage, run }, state, all };
}

describe.for(DATABASES)('times that name no zone, on $name', (database) => {
  it('become moments of the zone that the profile names for their field, and only those', async () => {
    const { stage, state, all } = await wallClock(database, { times: ZURICH });
    const visits = [{ at: '2026-07-10T12:00:00' }, { at: '2026-07-10T12:00:00Z' }];
    state.rows = [
      { id: 'summer', modified: '2026-07-10T12:00:00', other: '2026-07-10T12:00:00', visits },
      { id: 'winter', modified: '2026-01-10T12:00:00.250', other: '2026-01-10T12:00:00' },
      { id: 'zoned', modified: '2026-07-10T12:00:00-05:00' },
      { id: 'left out', modified: '2026-03-29T02:30:00' },
      { id: 'twice', modified: '2025-10-26T02:30:00' },
    ];
    expect((await stage.run('backfill')).status).toBe('ok');
    expect(await all('SELECT id, modified, other FROM report ORDER BY id')).toEqual([
      { id: 'left out', modified: '2026-03-29 00:30:00', other: null },
      { id: 'summer', modified: '2026-07-10 10:00:00', other: '2026-07-10 12:00:00' },
      { id: 'twice', modified: '2025-10-26 00:30:00', other: null },
      { id: 'winter', modified: '2026-01-10 11:00:00.250', other: '2026-01-10 12:00:00' },
      { id: 'zoned', modified: '2026-07-10 17:00:00', other: null },
    ]);
    expect(await all('SELECT at FROM report_visits ORDER BY position')).toEqual([
      { at: '2026-07-10 10:00:00' },
      { at: '2026-07-10 12:00:00' },
    ]);
  });

  it('are asked for in the form of the service, and no change is lost when its clock is put back', async () => {
    const { stage, state, all } = await wallClock(database, { times: ZURICH });
    const copied = () => all('SELECT id, text FROM report ORDER BY id');
    const asked = (): string | null =>
      new URL(stage.service.requests.at(-1) ?? '', 'http://x').searchParams.get('since');
    state.rows = [{ id: 'a', modified: '2026-10-25T02:50:00', text: 'first' }];
    expect((await stage.run('backfill')).status).toBe('ok');

    // A quarter past two for the second time: what is changed now looks older than what was copied.
    state.now = '2026-10-25T01:15:00Z';
    state.rows = [
      { id: 'a', modified: '2026-10-25T02:12:00', text: 'second' },
      { id: 'b', modified: '2026-10-25T02:10:00', text: 'new' },
    ];
    expect((await stage.run('sync')).resources[0]).toMatchObject({ status: 'ok', mode: 'incremental' });
    expect([asked(), await copied()]).toEqual([
      '2026-10-25T01:40:00',
      [
        { id: 'a', text: 'second' },
        { id: 'b', text: 'new' },
      ],
    ]);

    state.now = '2026-10-25T03:30:00Z';
    state.rows.push({ id: 'c', modified: '2026-10-25T04:20:00', text: 'later' });
    state.rows.push({ id: 'd', modified: '2026-10-25T04:25:00', text: 'last' });
    await stage.run('sync');
    expect(await copied()).toHaveLength(4);
    await stage.run('sync');
    expect(asked()).toBe('2026-10-25T04:15:00');
  });
});

describe.for(DATABASES)('times with microseconds, on $name', (database) => {
  it('are kept where the database has them, cut and told where not, and never skip a change', async () => {
    const times = new Map([1, 2, 3].map((id) => [id, `2026-01-01T00:00:00.12345${id}Z`]));
    // As a service that compares texts.
    const stage = await ownService(
      database,
      { history: 'all', incremental: { param: 'since', format: 'as_sent', lookback: '0s' } },
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
