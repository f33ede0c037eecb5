import { describe, expect, it } from 'vitest';
import type { ReportWindows } from '../../../src/config/profile/incremental.ts';
import { profileSchema } from '../../../src/config/profile/profile.ts';
import { endRangeAt, nextRange, rangeQuery, windowsBetween } from '../../../src/sync/reports/report-windows.ts';

const DUE = windowsBetween('2026-01-01', '2026-01-21', 'day').toReversed();
const WIDE = { largest: 31, windows: Infinity, until: '2026-01-21' };

function windowsWith(fields: Record<string, unknown>): ReportWindows {
  const windows = { field: 'date', from_param: 'from', to_param: 'to', start: '2026-01-01', ...fields };
  const report = { path: '/report', id: ['date', 'page'], page: { style: 'cursor' }, method: 'POST', windows };
  const found = profileSchema.parse({ resources: { report } }).resources['report']?.windows;
  if (found == null) throw new Error('a report has windows');
  return found;
}

describe('ranges', () => {
  it('take the newest windows, up to the largest range, the rows that are expected and the first gap', () => {
    const { range, left } = nextRange(DUE, { ...WIDE, largest: 7 });
    expect([range.from, range.to, range.windows.length, left.length]).toEqual(['2026-01-14', '2026-01-21', 7, 13]);
    const gap = nextRange(DUE.toSpliced(2, 1), WIDE);
    expect(gap.range).toMatchObject({ from: '2026-01-19', to: '2026-01-21' });
  });

  it('of the last windows end where nothing is asked for any more', () => {
    const months = windowsBetween('2026-01-01', '2026-01-22', 'month');
    const { range } = nextRange(months, { ...WIDE, until: '2026-01-22' });
    expect([range.from, range.to]).toEqual(['2026-01-01', '2026-01-22']);
    expect(endRangeAt(range, '2026-01-20').to).toBe('2026-01-21');
    const [tomorrow] = DUE;
    const alone = nextRange(tomorrow === undefined ? [] : [tomorrow], WIDE).range;
    expect(endRangeAt(alone, '2026-01-19')).toBe(alone);
  });

  it.each([
    [{}, { from: '2026-03-28', to: '2026-03-29' }],
    [{ to_inclusive: false }, { from: '2026-03-28', to: '2026-03-30' }],
    [{ format: 'yyyyMMdd' }, { from: '20260328', to: '20260329' }],
    [{ format: "yyyy-MM-dd'T'HH:mm:ss" }, { from: '2026-03-28T00:00:00', to: '2026-03-29T23:59:59' }],
    [
      { format: "yyyy-MM-dd'T'HH:mmXXX", zone: 'Europe/Zurich', to_inclusive: false },
      { from: '2026-03-28T00:00+01:00', to: '2026-03-30T00:00+02:00' },
    ],
    [
      { format: 'iso', zone: 'Europe/Zurich' },
      { from: '2026-03-27T23:00:00.000Z', to: '2026-03-29T21:59:59.999Z' },
    ],
    [{ format: 'epoch_s' }, { from: '1774656000', to: '1774828799' }],
    [
      { from_param: 'body:range.from', to_param: 'body:range.to', format: 'epoch_ms' },
      { 'body:range.from': 1_774_656_000_000, 'body:range.to': 1_774_828_799_999 },
    ],
  ])('are asked for as %j', (fields, extraQuery) => {
    const range = { windows: [], from: '2026-03-28', to: '2026-03-30' };
    expect(rangeQuery(windowsWith(fields), range, true).extraQuery).toEqual(extraQuery);
  });

  it('of one window are asked for by its first day, where a service takes no end', () => {
    const range = { windows: [], from: '2026-03-28', to: '2026-03-29' };
    const query = rangeQuery(windowsWith({ to_param: null }), range, false);
    expect(query).toEqual({ extraQuery: { from: '2026-03-28' }, values: { from: '2026-03-28', to: null } });
  });
});
