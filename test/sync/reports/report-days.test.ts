import { describe, expect, it } from 'vitest';
import { timeZone } from '../../../src/model/time-zone.ts';
import {
  dayBegin,
  dayBeginLatest,
  firstRetainedDay,
  localDay,
  windowAt,
  windowsBetween,
} from '../../../src/sync/reports/report-windows.ts';

const HOUR = 3_600_000;

describe('windows of reports', () => {
  it.each([
    ['day', '2026-03-01', '2026-03-01', '2026-03-02'],
    ['week', '2026-03-01', '2026-02-23', '2026-03-02'],
    ['week', '2026-03-02', '2026-03-02', '2026-03-09'],
    ['month', '2026-12-31', '2026-12-01', '2027-01-01'],
    ['month', '2024-02-29', '2024-02-01', '2024-03-01'],
  ] as const)('are whole: the %s of %s', (granularity, day, start, end) => {
    expect(windowAt(day, granularity)).toEqual({ start, end });
  });

  it('follow each other without a gap, from the one with the first day on', () => {
    const windows = windowsBetween('2025-12-31', '2026-02-02', 'week');
    expect(windows.map(({ start }) => start)).toEqual([
      '2025-12-29',
      '2026-01-05',
      '2026-01-12',
      '2026-01-19',
      '2026-01-26',
    ]);
    expect(windowsBetween('2026-01-02', '2026-01-02', 'day')).toEqual([]);
  });

  it.each([
    [{ days: 0, months: 25 }, '2026-03-31', '2024-02-29'],
    [{ days: 90, months: 0 }, '2026-03-31', '2025-12-31'],
    [{ days: 0, months: 12 }, '2024-02-29', '2023-02-28'],
    [null, '2026-03-31', null],
  ])('are kept for %j', (keep, today, from) => {
    expect(firstRetainedDay(keep, today)).toBe(from);
  });
});

describe('a day of a zone', () => {
  it.each([
    ['Europe/Zurich', '2026-03-29', 23],
    ['Europe/Zurich', '2026-10-25', 25],
    ['America/Santiago', '2026-09-06', 23],
    ['Asia/Kathmandu', '2026-01-01', 24],
  ])('in %s: %s has %d hours', (name, day, hours) => {
    const zone = timeZone(name);
    const [begin, end] = [dayBegin(day, zone), dayBegin(windowAt(day, 'day').end, zone)];
    const first = Array.from({ length: 49 }, (_, half) => begin + (half * HOUR) / 2).find(
      (at) => localDay(at, zone) === day,
    );
    expect((end - (first ?? NaN)) / HOUR).toBe(hours);
    expect(localDay(end - 1, zone)).toBe(day);
    expect(localDay(dayBeginLatest(windowAt(day, 'day').end, zone), zone) > day).toBe(true);
  });
});
