import { describe, expect, it } from 'vitest';
import { cronExpression, occurrencesOf, timezone } from '../../src/source/cron.ts';

it.each(['*/10 * * * *', '17 3 * * *', '30 2,14 * * 1-5', ' 0 0 1 1 * '])('"%s" is a cron expression', (text) => {
  expect(cronExpression.safeParse(text).success).toBe(true);
});

it.each(['', '* * * *', '0 * * * * *', '61 * * * *', '0 0 30 2 *', '@daily'])('"%s" is none', (text) => {
  expect(cronExpression.safeParse(text).success).toBe(false);
});

it.each([
  ['UTC', true],
  ['Europe/Vienna', true],
  ['Mars/Olympus', false],
  ['', false],
])('the time zone "%s": %s', (text, isValid) => {
  expect(timezone.safeParse(text).success).toBe(isValid);
});

function next(expression: string, after: string): string {
  return new Date(occurrencesOf(expression, 'Europe/Vienna')(Date.parse(after))).toISOString();
}

describe('occurrences in Vienna', () => {
  it.each([
    ['an ordinary day', '30 2 * * *', '2026-06-01T12:00:00Z', '2026-06-02T00:30:00.000Z'],
    ['a time that the clock change leaves out', '30 2 * * *', '2026-03-28T12:00:00Z', '2026-03-29T01:00:00.000Z'],
    ['a time that comes twice', '30 2 * * *', '2026-10-24T12:00:00Z', '2026-10-25T00:30:00.000Z'],
    ['after a time that comes twice', '30 2 * * *', '2026-10-25T00:30:00Z', '2026-10-26T01:30:00.000Z'],
  ])('%s', (_, expression, after, expected) => {
    expect(next(expression, after)).toBe(expected);
  });
});
