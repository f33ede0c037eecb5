import { describe, expect, it } from 'vitest';
import { reportRows, type ReportRow } from '../service/reports/report-rows.ts';
import { HandClock } from '../../support/hand-clock.ts';
import { ask, bodyOf, sandboxFor } from '../service-client.ts';

const RULES = { seed: 1, zone: 'UTC', start: '2026-01-01', restate: 3 };
const at = (text: string): number => Date.parse(text);
const day = (date: string, now: string): ReportRow[] => reportRows('traffic', { from: date, to: date }, RULES, at(now));

function keysOf(rows: readonly ReportRow[]): string[] {
  return rows.map(({ date, page, referrer }) => `${date} ${page} ${referrer}`);
}

/** Of a day that is final. */
const withPosts = (posts: number): ReportRow[] =>
  reportRows('traffic', { from: '2026-02-10', to: '2026-02-10' }, { ...RULES, posts }, at('2026-03-01T00:00Z'));

interface Listing {
  data: ReportRow[];
  totals: { views: number };
}

describe('the rows of a report', () => {
  it('grow over their day, change until it is final, and stay from then on', () => {
    const sums = ['2026-02-10T06:00Z', '2026-02-10T23:59Z', '2026-02-11T13:00Z', '2026-02-14T00:00Z'].map((now) =>
      day('2026-02-10', now).reduce((sum, { views }) => sum + views, 0),
    );
    expect(sums).toEqual(sums.toSorted((a, b) => a - b));
    expect(new Set(sums).size).toBe(4);
    expect(day('2026-02-10', '2026-02-14T00:00Z')).toEqual(day('2026-02-10', '2027-02-14T00:00Z'));
    expect(day('2026-02-10', '2026-02-12T01:00Z')).toEqual(day('2026-02-10', '2026-02-12T01:00Z'));
    expect(day('2026-02-10', '2026-02-09T23:59Z')).toEqual([]);
    expect(day('2025-12-31', '2026-02-10T00:00Z')).toEqual([]);
  });

  it('gain some and lose some when their day is over, and have null for what is not known', () => {
    const days = ['2026-02-08', '2026-02-09', '2026-02-10', '2026-02-11'];
    const before = days.flatMap((date) => keysOf(day(date, `${date}T23:59Z`)));
    const after = days.flatMap((date) => keysOf(day(date, '2026-03-01T00:00Z')));
    expect(before.filter((key) => !after.includes(key))).not.toEqual([]);
    expect(after.filter((key) => !before.includes(key))).not.toEqual([]);
    expect(after.some((key) => key.endsWith('null null'))).toBe(true);
  });

  it('are of more pages where there are more posts', () => {
    expect(withPosts(20).slice(0, withPosts(0).length)).toEqual(withPosts(0));
    expect(new Set(withPosts(20).map(({ page }) => page))).toContain('/blog/20');
    expect(withPosts(20).length).toBeGreaterThan(withPosts(0).length + 40);
  });

  it('are of the days of their zone', () => {
    const rules = { ...RULES, zone: 'America/Los_Angeles' };
    const rows = (now: string) => reportRows('traffic', { from: '2026-02-10', to: '2026-02-10' }, rules, at(now));
    expect(rows('2026-02-10T07:59Z')).toEqual([]);
    expect(rows('2026-02-10T12:00Z').length).toBeGreaterThan(0);
  });
});

describe('GET /v1/reports/{name}', () => {
  it('lists a range page by page, with its total and sums, and no more than the cap', async () => {
    const clock = new HandClock('2026-02-20T12:00:00.000Z');
    const sandbox = await sandboxFor({ report: ['traffic'], windowCap: 50, clock, reportStart: '2026-01-01' });
    const range = '/v1/reports/traffic?from=2026-02-01&to=2026-02-10';
    const rows = reportRows('traffic', { from: '2026-02-01', to: '2026-02-10' }, RULES, clock.now());
    const first = await bodyOf<Listing>(await ask(sandbox, `${range}&limit=40`));
    expect(first).toMatchObject({ total: 50, next_cursor: '40', data: rows.slice(0, 40) });
    expect(first.totals.views).toBe(rows.reduce((sum, { views }) => sum + views, 0));
    const second = await bodyOf<Listing>(await ask(sandbox, `${range}&limit=40&cursor=40`));
    expect(second).toMatchObject({ next_cursor: null, data: rows.slice(40, 50) });
    for (const [path, status] of [
      ['/v1/reports/sales?from=2026-02-01&to=2026-02-02', 404],
      ['/v1/reports/traffic', 400],
      ['/v1/reports/traffic?from=2026-02-02&to=2026-02-01', 400],
      ['/v1/reports/traffic?from=2020-02-02&to=2026-02-01', 400],
      [`${range}&limit=many`, 400],
    ] as const) {
      expect((await ask(sandbox, path)).status).toBe(status);
    }
  });
});
