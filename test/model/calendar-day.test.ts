import { expect, it } from 'vitest';
import { daysOfYears } from '../../src/model/timestamp-text.ts';

it('the calendar has every day, with weeks by ISO 8601', () => {
  const days = new Map(daysOfYears(1999, 2026).map((day) => [day.date, day]));
  expect(days.size).toBe(28 * 365 + 7);
  expect(days.get('2000-02-29')).toEqual({
    date: '2000-02-29',
    month: '2000-02',
    quarter: '2000-Q1',
    year: 2000,
    iso_week: '2000-W09',
    weekday: 2,
    is_weekend: false,
  });
  const weeks = ['2021-01-03', '2021-01-04', '2024-12-30', '2020-12-31', '2026-12-31'].map((date) => days.get(date));
  expect(weeks.map((day) => [day?.iso_week, day?.weekday, day?.is_weekend, day?.quarter])).toEqual([
    ['2020-W53', 7, true, '2021-Q1'],
    ['2021-W01', 1, false, '2021-Q1'],
    ['2025-W01', 1, false, '2024-Q4'],
    ['2020-W53', 4, false, '2020-Q4'],
    ['2026-W53', 4, false, '2026-Q4'],
  ]);
  expect(daysOfYears(2027, 2026)).toEqual([]);
});
