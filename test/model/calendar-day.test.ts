import { describe, expect, it } from 'vitest';
import { daysOfYears } from '../../src/model/calendar-day.ts';

const MONTH_DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

function isLeap(year: number): boolean {
  return (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
}

function two(part: number): string {
  return String(part).padStart(2, '0');
}

/** All days by counting alone: 1970 began on a Thursday, and the first week of a year is the one with its 4 January. */
function counted(first: number, last: number): { date: string; weekday: number }[] {
  const days = [];
  let weekday = 4;
  for (let year = 1970; year <= last; year += 1) {
    for (const [month, usual] of MONTH_DAYS.entries()) {
      const length = month === 1 && isLeap(year) ? 29 : usual;
      for (let day = 1; day <= length; day += 1) {
        if (year >= first) days.push({ date: `${year}-${two(month + 1)}-${two(day)}`, weekday });
        weekday = (weekday % 7) + 1;
      }
    }
  }
  return days;
}

/** By date. A week has the number that its Monday's week has, and this begins anew with the week of 4 January. */
function weeksOf(days: readonly { date: string; weekday: number }[]): Map<string, string> {
  const weeks = new Map<string, string>();
  let [year, week] = [1970, 1];
  for (const [at, { date, weekday }] of days.entries()) {
    if (weekday === 1) {
      week += 1;
      const fourth = days.slice(at, at + 7).find(({ date: each }) => each.endsWith('-01-04'));
      if (fourth !== undefined) [year, week] = [Number(fourth.date.slice(0, 4)), 1];
    }
    weeks.set(date, `${year}-W${two(week)}`);
  }
  return weeks;
}

describe('the days of the calendar', () => {
  it('are all there, with their weekdays, weeks and quarters, from 1970 to 2100', () => {
    const oracle = counted(1970, 2100);
    const weeks = weeksOf(oracle);
    const wanted = oracle.map(({ date, weekday }) => ({
      date,
      month: date.slice(0, 7),
      quarter: `${date.slice(0, 4)}-Q${Math.ceil(Number(date.slice(5, 7)) / 3)}`,
      year: Number(date.slice(0, 4)),
      iso_week: weeks.get(date),
      weekday,
      is_weekend: weekday === 6 || weekday === 7,
    }));
    expect(daysOfYears(1970, 2100)).toEqual(wanted);
    expect(weeks.get('2021-01-03')).toBe('2020-W53');
  });

  it('are none where the years are', () => {
    expect(daysOfYears(2027, 2026)).toEqual([]);
  });
});
