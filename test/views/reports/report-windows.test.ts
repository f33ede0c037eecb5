import { describe, expect, it } from 'vitest';
import { reportRows, type ReportRow } from '../../sandbox/service/reports/report-rows.ts';
import { DATABASES } from '../../support/databases.ts';
import { codeBlocks, readPage } from '../../support/readme.ts';
import { asking } from '../ask.ts';
import { reportStage } from './report-stage.ts';

const DAY = 86_400_000;
const OPEN = 'SELECT window_start, window_end, is_final, rows FROM traffic_windows ORDER BY window_start';
const FLAGS = `SELECT date, is_final, count(*) AS n FROM traffic_live GROUP BY date, is_final ORDER BY date`;

const dayAt = (start: string, days: number): string =>
  new Date(Date.parse(start) + days * DAY).toISOString().slice(0, 10);

/** Sums of a figure by day, of the days before one. */
function sums(rows: readonly ReportRow[], before: string): { date: string; views: number }[] {
  const byDay = Map.groupBy(rows, ({ date }) => date);
  return [...byDay].flatMap(([date, of]) =>
    date < before ? [{ date, views: of.reduce((sum, { views }) => sum + views, 0) }] : [],
  );
}

/** The queries of a question, SQLite's first where there are two. */
function queryOf(heading: string, name: 'sqlite' | 'postgres'): string {
  const blocks = codeBlocks(readPage('src/views/README.md').section(heading), 'sql');
  return (name === 'sqlite' ? blocks[0] : blocks.at(-1)) ?? '';
}

describe.for(DATABASES)('the views of reports, on $name', (database) => {
  it('say of each window and of each row whether it may still change', async () => {
    const stage = await reportStage(database, '2026-02-01', '2026-02-10T12:00:00.000Z');
    expect((await stage.run('backfill', { clock: stage.clock })).status).toBe('ok');
    const [windows, flags] = await asking(database, stage)([OPEN, FLAGS]);
    const rows = stage.rowsNow();
    const expected = Array.from({ length: 10 }, (_, at) => {
      const day = dayAt('2026-02-01', at);
      return { day, is_final: at < 6 ? 1 : 0, n: rows.filter(({ date }) => date === day).length };
    });
    const told = expected.map(({ day, is_final, n }) => {
      return { window_start: day, window_end: dayAt(day, 1), is_final, rows: n };
    });
    // Rows of tomorrow are looked for as well, where clocks differ.
    expect(Array.isArray(windows) ? windows.slice(0, 10) : windows).toEqual(told);
    expect(flags).toEqual(expected.map(({ day, is_final, n }) => ({ date: day, is_final, n })));
  });

  it('answer what was reported on a day, what may still change, and what stays', async () => {
    const stage = await reportStage(database, '2026-02-22', '2026-02-27T12:00:00.000Z');
    for (let day = 0; day < 10; day += 1) {
      expect((await stage.run(day === 0 ? 'backfill' : 'sync', { clock: stage.clock })).status).toBe('ok');
      stage.clock.push(DAY);
    }
    stage.clock.push(-DAY);
    const ask = asking(database, stage);
    const headings = [
      'Views of last month as they were reported on the 3rd',
      'Which days are still to change',
      'Views per day, of days that stay as they are',
    ];
    const [reported, open, final] = await ask(headings.map((heading) => queryOf(heading, database.name)));
    const range = { from: '2026-02-22', to: '2026-03-08' };
    const onThe3rd = reportRows('traffic', range, '2026-02-22', Date.parse('2026-03-03T12:00:30.000Z'));
    expect(reported).toEqual(sums(onThe3rd, '2026-03-01'));
    expect(reported).not.toEqual(sums(stage.rowsNow(), '2026-03-01'));
    const days = Array.isArray(open) ? open.map(({ day }) => day) : open;
    expect(days).toEqual(expect.arrayContaining(['2026-03-05', '2026-03-06', '2026-03-07', '2026-03-08']));
    expect(days).not.toContain('2026-03-03');
    const stays = Array.isArray(final) ? final.map(({ date, views }) => ({ date, views })) : final;
    expect(stays).toEqual(sums(stage.rowsNow(), '2026-03-05'));
  });
});
