import { describe, expect, it } from 'vitest';
import { USUAL } from '../support/databases.ts';
import {
  nextDay,
  type ReportBehaviour,
  reportService,
  type ReportService,
  reportStage,
} from '../support/report-service.ts';

const HOUR = 3_600_000;

/** Forty days until 2026-02-09, of which each has five figures. */
function fortyDays(behaviour: ReportBehaviour = {}): ReportService {
  const reports = reportService('2026-02-09T06:00:00Z', behaviour);
  for (let day = '2026-01-01'; day <= '2026-02-09'; day = nextDay(day)) {
    for (let page = 0; page < 5; page += 1) reports.put(day, `/p${page}`, page === 0 ? null : 'search', 10 + page);
  }
  return reports;
}

describe('an answer for a range of reports', () => {
  it('is told of a window that alone holds as much as the service lists', async () => {
    const reports = fortyDays({ cap: 12 });
    for (let page = 0; page < 20; page += 1) reports.put('2026-01-20', `/many${page}`, null, 1);
    const stage = await reportStage(USUAL, reports, { most: 12 });
    const first = await stage.walk('backfill');
    expect(first).toMatchObject({ status: 'partial', warnings: [{ code: 'window_capped', message: /2026-01-20/ }] });
    const row = (await stage.windows()).find(({ capped }) => capped === 1);
    expect(row).toMatchObject({ window_start: '2026-01-20', rows: 12 });
    const kept = await stage.value('SELECT warnings FROM _sync_runs');
    expect(kept).toBe(JSON.stringify(first.warnings));
    stage.reports.now += HOUR;
    expect(await stage.walk()).toMatchObject({ status: 'partial', warnings: [{ code: 'window_capped' }] });
  });

  it('is left out where a single window is too large, and the others come', async () => {
    const reports = fortyDays();
    const stage = await reportStage(USUAL, reports, { too_large: { status: [413] } });
    reports.behaviour.largest = { days: 31, status: 413 };
    reports.behaviour.before = (url) => {
      const [from, to] = [url.searchParams.get('from') ?? '', url.searchParams.get('to') ?? ''];
      const holds = from <= '2026-01-15' && to >= '2026-01-15';
      reports.behaviour.largest = holds ? { days: 0, status: 413 } : { days: 31, status: 413 };
    };
    const first = await stage.walk('backfill');
    expect(first).toMatchObject({ status: 'partial', warnings: [{ code: 'window_too_large', message: /2026-01-15/ }] });
    expect(await stage.unlike()).toHaveLength(5);
    delete reports.behaviour.before;
    reports.behaviour.largest = { days: 31, status: 413 };
    stage.reports.now += HOUR;
    expect(await stage.walk('backfill')).toMatchObject({ status: 'ok' });
    expect(await stage.unlike()).toEqual([]);
  });

  it('is asked for without today by a service that refuses a day that is not over, and told of it', async () => {
    const reports = fortyDays({ refusesToday: true });
    const stage = await reportStage(USUAL, reports, { largest: '10d' });
    const first = await stage.walk('backfill');
    const refused = { code: 'window_unfinished', message: expect.stringContaining('2026-02-09') };
    expect(first).toMatchObject({ status: 'ok', inserted: 195, warnings: [refused] });
    expect(first.asked.slice(0, 3)).toEqual([
      '2026-02-01..2026-02-10',
      '2026-02-01..2026-02-09',
      '2026-02-01..2026-02-08',
    ]);
    reports.now += 24 * HOUR;
    expect(await stage.walk()).toMatchObject({ status: 'ok', inserted: 5, asked: { length: 2 } });
    expect(await stage.unlike()).toEqual([]);
    // A refusal of days that are over is not taken for that.
    reports.behaviour.fails = () => 400;
    expect(await stage.walk()).toMatchObject({ status: 'failed', error: { code: 'bad_request' } });
  });

  it('is stored but for the window that the service refuses, which is named and requested again', async () => {
    const reports = fortyDays();
    const stage = await reportStage(USUAL, reports, { largest: '1d' });
    let asked = '';
    reports.behaviour.before = ({ search }) => void (asked = search);
    reports.behaviour.fails = () => (asked.includes('from=2026-01-20') ? 404 : null);
    const first = await stage.walk('backfill');
    expect(first).toMatchObject({ status: 'partial', warnings: [{ code: 'window_unread', message: /2026-01-20/ }] });
    expect(await stage.unlike()).toHaveLength(5);
    reports.behaviour.fails = () => null;
    stage.reports.now += HOUR;
    expect(await stage.walk('sync')).toMatchObject({ status: 'ok', mode: 'incremental' });
    expect(await stage.unlike()).toEqual([]);
  });

  it.each<[what: string, behaviour: ReportBehaviour, windows: Record<string, unknown>, hint: RegExp]>([
    ['the end is counted in', { isInclusive: true }, { to_inclusive: false, largest: '5d' }, /to_inclusive: true/],
    ['the days are of another zone', { written: ({ day }) => `${day}T03:00:00Z` }, { zone: '-05:00' }, /at the border/],
    ['no range is read', { lists: () => [figure('2025-12-01')] }, {}, /does not keep to the range/],
    ['a record has no day', { written: () => 'none' }, {}, /must name the field with a record's day/],
  ])('is refused where %s, and nothing of it is written', async (_, behaviour, windows, hint) => {
    const fields = { page: { style: 'cursor', size: 500 } };
    const stage = await reportStage(USUAL, fortyDays(behaviour), windows, { fields });
    const first = await stage.walk('backfill');
    expect(first).toMatchObject({ status: 'failed', error: { code: 'window_outside', hint } });
    // At most the newest range, of which the service has nothing but its own days.
    expect((await stage.windows()).length).toBeLessThan(6);
  });

  it('tells sums that are not those of its rows: asked for again, then told, unless that is accepted', async () => {
    const stage = await reportStage(USUAL, fortyDays({ totalError: 3 }), { largest: '40d' });
    const first = await stage.walk('backfill');
    expect(first).toMatchObject({ status: 'partial', warnings: [{ code: 'window_total_differs' }] });
    expect(first.asked.filter((range) => !range.includes('+')).length).toBeLessThanOrEqual(22);
    const [window] = await stage.windows();
    expect(JSON.parse(window?.totals ?? '')).toEqual({
      from: '2026-01-01',
      to: '2026-01-02',
      differs: [{ field: 'views', reported: 63, counted: 60 }],
    });
    stage.reports.now += HOUR;
    delete stage.reports.behaviour.totalError;
    expect(await stage.walk('backfill')).toMatchObject({ status: 'ok' });
  });

  it('is of other data under another zone, and not under another first day or range', async () => {
    const stage = await reportStage(USUAL, fortyDays());
    await stage.walk('backfill');
    stage.setWindows({ zone: 'Europe/Zurich' });
    await expect(stage.walk()).rejects.toMatchObject({ code: 'profile_changed' });
    stage.setWindows({ start: '2025-12-30', restate: '24h', largest: '7d', most: 1_000 });
    stage.reports.put('2025-12-31', '/p1', 'search', 4);
    stage.reports.now += HOUR;
    const earlier = await stage.walk();
    expect(earlier).toMatchObject({ status: 'ok', mode: 'incremental', inserted: 1 });
    expect(earlier.asked).toEqual(['2026-02-06..2026-02-10', '2025-12-30..2025-12-31']);
    stage.setWindows({ granularity: 'week' });
    const anew = await stage.walk('backfill', { restart: true });
    expect(anew).toMatchObject({ status: 'ok', mode: 'full', inserted: 201 });
    expect((await stage.windows()).map(({ window_start }) => window_start)).toEqual([
      '2025-12-29',
      '2026-01-05',
      '2026-01-12',
      '2026-01-19',
      '2026-01-26',
      '2026-02-02',
      '2026-02-09',
    ]);
  });
});

function figure(day: string) {
  return { day, page: '/', referrer: null, views: 1 };
}
