import { array, assert, double, property } from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MinuteSeries } from '../../src/observe/activity.ts';

const MINUTE = 60_000;
const START = Date.parse('2026-11-20T08:00:30.000Z');

describe('a series of minutes', () => {
  it('counts and sums by the minute, oldest first, 60 of them', () => {
    const series = new MinuteSeries();
    series.add(START, 10);
    series.add(START, 20, 3);
    series.add(START + MINUTE, 5);
    const minutes = series.minutes(START + MINUTE);
    expect(minutes).toHaveLength(60);
    expect(minutes.slice(-3).map(({ at, count, sum }) => [at, count, sum])).toStrictEqual([
      [Date.parse('2026-11-20T07:59:00.000Z'), 0, 0],
      [Date.parse('2026-11-20T08:00:00.000Z'), 4, 70],
      [Date.parse('2026-11-20T08:01:00.000Z'), 1, 5],
    ]);
    expect(series.total(START + MINUTE)).toMatchObject({ count: 5, sum: 75 });
  });

  it('forgets what is older than an hour, also where its place was not used since', () => {
    const series = new MinuteSeries();
    series.add(START, 1);
    expect(series.total(START + 59 * MINUTE).count).toBe(1);
    expect(series.total(START + 60 * MINUTE).count).toBe(0);
    series.add(START + 60 * MINUTE, 1);
    expect(series.total(START + 60 * MINUTE).count).toBe(1);
  });

  it('stays right when the clock is set back or far forward', () => {
    const series = new MinuteSeries();
    series.add(START, 1);
    series.add(START - 30 * MINUTE, 1);
    expect(series.total(START - 30 * MINUTE).count).toBe(1);
    expect(series.total(START).count).toBe(2);
    series.add(START + 1e9, 1);
    expect(series.total(START + 1e9).count).toBe(1);
  });

  it('tells quantiles to an eighth of their value', () => {
    assert(
      property(array(double({ min: 1, max: 1e6, noNaN: true }), { minLength: 1, maxLength: 200 }), (values) => {
        const series = new MinuteSeries();
        values.forEach((value, at) => series.add(START + (at % 5) * MINUTE, value));
        const sorted = values.toSorted((a, b) => a - b);
        const { p50, p95 } = series.total(START + 5 * MINUTE);
        for (const [part, told] of [
          [0.5, p50],
          [0.95, p95],
        ] as const) {
          const exact = sorted[Math.ceil(values.length * part) - 1] ?? 0;
          expect(Math.abs((told ?? Number.NaN) / exact - 1)).toBeLessThanOrEqual(0.126);
        }
      }),
    );
  });

  it('has no quantile where nothing was noted, and takes any value', () => {
    const series = new MinuteSeries();
    expect(series.total(START)).toStrictEqual({ count: 0, sum: 0, p50: null, p95: null });
    for (const value of [0, 0.5, -1, 1e15]) series.add(START, value);
    expect(series.total(START).count).toBe(4);
  });
});
