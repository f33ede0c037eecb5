import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { Clock } from '../../src/model/clock.ts';
import { eitherDatabase } from '../support/databases.ts';
import { ownService } from '../support/own-service.ts';
import { clockShowing } from '../support/hurried-clock.ts';
import { nextDay, reportService, reportStage, type Figure } from '../support/report-service.ts';

const DAY = 86_400_000;

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
    const live = await stage.read((db) =>
      db.prepare('SELECT count(*) FROM report WHERE _deleted_at IS NULL').pluck().get(),
    );
    expect(live).toBe(29);
  });

  it('are taken up by the command that follows one that was killed', async () => {
    const today = new Date().toISOString().slice(0, 10);
    const start = new Date(Date.parse(today) - 60 * DAY).toISOString().slice(0, 10);
    const reports = reportService(new Date().toISOString());
    for (let day = start; day <= today; day = nextDay(day)) {
      for (let page = 0; page < 30; page += 1) reports.put(day, `/p${page}`, page % 2 === 0 ? null : 'search', page);
    }
    const stage = await reportStage(database, reports, { start, largest: '3d' });
    stage.service.delay = 20;
    const command = stage.start('backfill');
    while (stage.service.requests.length < 12) await delay(5);
    command.kill('SIGKILL');
    await command.ended;
    const there = await stage.windows();
    expect(there.every(({ window_start, rows }) => rows === 30 || window_start > today)).toBe(true);
    stage.service.requests.length = 0;
    const again = await stage.command('backfill');
    expect([again.code, again.stderr]).toEqual([0, expect.any(String)]);
    const oldest = there[0]?.window_start ?? '9';
    const twice = stage.service.requests.filter((request) => {
      const from = new URL(request, 'http://localhost').searchParams.get('from') ?? '';
      return from >= oldest && from < nextDay(today, -6);
    });
    expect(twice).toEqual([]);
    expect(await stage.unlike()).toEqual([]);
  });
});
