import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { Clock } from '../../src/model/clock.ts';
import { eitherDatabase } from '../support/databases.ts';
import { clockShowing } from '../support/hurried-clock.ts';
import { STOPPED } from '../support/journey.ts';
import { ownService } from '../support/own-service.ts';
import { type Figure, nextDay, reportService, type ReportService, reportStage } from '../support/report-service.ts';

const HOUR = 3_600_000;
const SUM_OF_LIVE = 'SELECT sum(views) FROM report WHERE _deleted_at IS NULL';

/** A hundred days until 2026-04-10, of which each has a few figures. */
function hundredDays(behaviour = {}): ReportService {
  const reports = reportService('2026-04-10T06:00:00Z', behaviour);
  for (let day = '2026-01-01'; day <= '2026-04-10'; day = nextDay(day)) {
    reports.put(day, '/', null, 100);
    reports.put(day, '/about', 'search', 7);
  }
  return reports;
}

describe.for(eitherDatabase(import.meta.filename))('reports by windows on $name', (database) => {
  it('are copied the newest first, range by range, and then only where they may have changed', async () => {
    const reports = hundredDays();
    const stage = await reportStage(database, reports);
    const first = await stage.walk('backfill');
    expect(first).toMatchObject({ status: 'ok', mode: 'full', inserted: 200, deleted: 0 });
    expect(first.asked.filter((range) => !range.includes('+'))).toEqual([
      '2026-03-12..2026-04-11',
      '2026-02-09..2026-03-11',
      '2026-01-09..2026-02-08',
      '2026-01-01..2026-01-08',
    ]);
    expect(await stage.unlike()).toEqual([]);
    const windows = await stage.windows();
    expect(windows).toHaveLength(101);
    expect(windows.filter(({ is_final }) => is_final === 1)).toHaveLength(96);
    expect(windows[0]).toMatchObject({ window_start: '2026-01-01', window_end: '2026-01-02', rows: 2, totals: null });

    reports.now += 24 * HOUR;
    reports.put('2026-04-09', '/', null, 120);
    reports.drop('2026-04-10', '/about', 'search');
    reports.put('2026-04-11', '/', null, 3);
    const second = await stage.walk();
    expect(second).toMatchObject({ status: 'ok', mode: 'incremental', inserted: 1, updated: 1, deleted: 1 });
    expect(second.asked).toEqual(['2026-04-07..2026-04-12']);
    expect(await stage.unlike()).toEqual([]);
    const versions = await stage.all(
      "SELECT id, version, op FROM _sync_versions WHERE version > 1 OR op = 'delete' ORDER BY id",
    );
    expect(versions).toEqual([
      { id: '["2026-04-09","/",null]', version: 2, op: 'upsert' },
      { id: '["2026-04-10","/about","search"]', version: 2, op: 'delete' },
    ]);
    expect(await stage.value('SELECT count(*) FROM _sync_deletes')).toBe(1);
  });

  it('are taken up where a kill has left them, and a range of it is never half there', async () => {
    const reports = hundredDays();
    const stage = await reportStage(database, reports, { largest: '10d' });
    const stop = new AbortController();
    let asked = 0;
    reports.behaviour.before = () => (asked += 1) === 5 && stop.abort(STOPPED);
    const killed = await stage.walk('backfill', { signal: stop.signal });
    expect(killed.status).toBe('interrupted');
    const there = await stage.windows();
    expect(there.length).toBeGreaterThanOrEqual(31);
    const halves = there.filter(({ rows }) => rows !== 2).map(({ window_start }) => window_start);
    expect(halves).toEqual(['2026-04-11']);
    delete reports.behaviour.before;
    reports.now += HOUR;
    const again = await stage.walk('backfill');
    expect(again).toMatchObject({ status: 'ok', mode: 'full' });
    // What may still change is asked for once more, so that the end speaks of now; what is final is not.
    expect(again.asked[0]).toBe('2026-04-07..2026-04-11');
    expect(again.asked.slice(1).every((range) => range < (there[0]?.window_start ?? ''))).toBe(true);
    expect(await stage.unlike()).toEqual([]);
  });

  it('are held where an answer takes a window away, until a person says that it counts', async () => {
    const reports = hundredDays();
    const stage = await reportStage(database, reports);
    await stage.walk('backfill');
    reports.now += HOUR;
    for (const page of ['/', '/about']) reports.drop('2026-04-08', page, page === '/' ? null : 'search');
    reports.put('2026-04-09', '/', null, 55);
    const held = await stage.walk();
    expect(held).toMatchObject({ status: 'partial', updated: 1, deleted: 0 });
    expect(held.warnings).toMatchObject([{ code: 'window_held', message: /window of 2026-04-08 is kept/ }]);
    expect(held.asked).toEqual(['2026-04-07..2026-04-11', '2026-04-07..2026-04-11']);
    expect(await stage.unlike()).toEqual(['2026-04-08 / - 100', '2026-04-08 /about search 7']);
    const listed = await stage.command('deletes', 'list');
    expect(listed.stdout).toMatch(/report +2026-04-08 +held .*a window of reports.*all of its 2 rows/);
    const confirmed = await stage.command('deletes', 'confirm', 'report', '--id', '2026-04-08');
    expect(confirmed.stdout).toMatch(/1 confirmed.*the next run requests/);
    reports.now += HOUR;
    expect(await stage.walk()).toMatchObject({ status: 'ok', deleted: 2 });
    expect(await stage.unlike()).toEqual([]);
    expect((await stage.windows()).filter(({ held_at }) => held_at !== null)).toEqual([]);
  });

  it('are whole for whoever reads beside them', async () => {
    const reports = reportService('2026-01-05T06:00:00Z');
    const fill = (views: number): void => {
      for (let page = 0; page < 300; page += 1) reports.put('2026-01-04', `/p${page}`, 'mail', views);
    };
    fill(1);
    const stage = await reportStage(database, reports, { start: '2026-01-01' });
    await stage.walk('backfill');
    const sums = new Set<number>();
    const over = new AbortController();
    const reader = (async () => {
      while (!over.signal.aborted) {
        sums.add(Number(await stage.value(SUM_OF_LIVE)));
        await delay(1);
      }
    })();
    try {
      for (const views of [2, 3, 4]) {
        fill(views);
        // Other rows come and go with each answer.
        reports.drop('2026-01-04', '/p0', 'mail');
        reports.put('2026-01-04', `/new${views}`, 'mail', views);
        reports.drop('2026-01-04', `/new${views - 1}`, 'mail');
        reports.now += HOUR;
        expect(await stage.walk()).toMatchObject({ status: 'ok' });
      }
    } finally {
      over.abort();
      await reader;
    }
    expect([...sums].filter((sum) => ![300, 600, 900, 1_200].includes(sum))).toEqual([]);
    expect(await stage.unlike()).toEqual([]);
  });
});

function clock(at: string): Clock {
  return clockShowing(() => Date.parse(at));
}

/** Ways in which services write the day of a row. */
const WRITTEN: [what: string, write: (figure: Figure) => unknown, zone: string][] = [
  ['a date', ({ day }) => day, 'UTC'],
  ['digits in a text', ({ day }) => day.replaceAll('-', ''), 'UTC'],
  ['a number', ({ day }) => Number(day.replaceAll('-', '')), 'UTC'],
  ['a Unix time', ({ day }) => Date.parse(`${day}T12:00:00+05:30`) / 1_000, '+05:30'],
  ['a moment', ({ day }) => `${day}T00:15:00+05:30`, 'Asia/Kolkata'],
  ['a text or a number', ({ day, page }) => (page === '/0' ? Number(day.replaceAll('-', '')) : day), 'UTC'],
];

describe.for(eitherDatabase(import.meta.filename))('rows of reports on $name', (database) => {
  it.for(WRITTEN)('are found by their day, where it is %s', async ([, write, zone]) => {
    let figures: Figure[] = [];
    for (let day = '2026-01-01'; day <= '2026-01-10'; day = nextDay(day))
      for (let page = 0; page < 3; page += 1) figures.push({ day, page: `/${page}`, referrer: null, views: page });
    const windows = { field: 'day', from_param: 'from', to_param: 'to', start: '2026-01-01', restate: '400d', zone };
    const fields = { id: ['day', 'page'], updated: null, windows: { ...windows, largest: '2d' } };
    const stage = await ownService(database, fields, (url) => {
      const [from, to] = [url.searchParams.get('from') ?? '', url.searchParams.get('to') ?? ''];
      const found = figures.filter(({ day }) => day >= from && day <= to);
      return {
        body: {
          data: found.map((figure) => ({ day: write(figure), page: figure.page, views: figure.views })),
          next_cursor: null,
        },
      };
    });
    const first = await stage.run('backfill', { clock: clock('2026-01-10T08:00:00Z') });
    expect(first.resources[0]).toMatchObject({ status: 'ok', inserted: 30 });
    figures = figures.filter(({ day, page }) => page !== '/1' || day !== '2026-01-04');
    const second = await stage.run('sync', { clock: clock('2026-01-10T09:00:00Z') });
    expect(second.resources[0]).toMatchObject({ status: 'ok', inserted: 0, updated: 0, unchanged: 29, deleted: 1 });
    const live = await stage.value('SELECT count(*) FROM report WHERE _deleted_at IS NULL');
    expect(live).toBe(29);
  });
});
