import { describe, expect, it } from 'vitest';
import { cronExpression, occurrencesOf } from '../../../src/config/cron.ts';
import { sampled } from '../../support/length.ts';

const YEAR = [Date.parse('2026-01-01T00:00Z'), Date.parse('2027-01-01T00:00Z')] as const;

function occurrences(expression: string, zone: string, from: number, to: number): number[] {
  const next = occurrencesOf(expression, zone);
  const found: number[] = [];
  for (let at = next(from - 1); at < to; at = next(at)) found.push(at);
  return found;
}

const texts = (moments: readonly number[]): string[] => moments.map((at) => new Date(at).toISOString().slice(0, 16));

const ZONES = ['UTC', 'Europe/Vienna', 'America/New_York', 'Australia/Lord_Howe', 'America/St_Johns', 'America/Havana'];

describe('occurrences over clock changes', () => {
  it.each([
    ['a daily time in the spring gap at the end of the gap', '30 2 * * *', 'Europe/Vienna', '2026-03-29', ['01:00']],
    ['a daily time that comes twice once', '30 2 * * *', 'Europe/Vienna', '2026-10-25', ['00:30']],
    ['each of several times, too', '30 2,14 * * *', 'Europe/Vienna', '2026-03-29', ['01:00', '12:30']],
    ['each of several times once, too', '30 2,14 * * *', 'Europe/Vienna', '2026-10-25', ['00:30', '13:30']],
    ['a time in half an hour that is left out', '15 2 * * *', 'Australia/Lord_Howe', '2026-10-03', ['15:30']],
    ['a midnight that does not exist', '0 0 * * *', 'Asia/Beirut', '2026-03-28', ['22:00']],
    ['every other hour of a day of 23', '0 */12 * * *', 'Europe/Vienna', '2026-03-29', ['10:00', '22:00']],
  ])('have %s', (_, expression, zone, day, times) => {
    const from = Date.parse(`${day}T00:00Z`);
    expect(texts(occurrences(expression, zone, from, from + 86_400_000))).toEqual(
      times.map((time) => `${day}T${time}`),
    );
  });

  it.each(sampled(ZONES, 2, 1))(
    'F073 come once on each of the 365 days of a year in %s, at any time of day',
    (zone) => {
      const days = new Intl.DateTimeFormat('en-CA', { timeZone: zone, dateStyle: 'short' });
      for (const minutes of [0, 90, 135, 150, 1_425]) {
        const found = occurrences(`${minutes % 60} ${Math.floor(minutes / 60)} * * *`, zone, ...YEAR);
        expect(new Set(found.map((at) => days.format(at))).size).toBe(found.length);
        expect([365, 366]).toContain(found.length);
      }
    },
  );

  it.each(['2026-03-28', '2026-10-24'])('F073 come 60 times in each real hour from %s on', (day) => {
    const from = Date.parse(`${day}T00:00Z`);
    const found = occurrences('* * * * *', 'Europe/Vienna', from, from + 3 * 86_400_000);
    expect(found).toEqual(Array.from({ length: 3 * 1_440 }, (_, minute) => from + minute * 60_000));
  });
});

describe('settings of the schedule', () => {
  it.each(['* * * * *', '*/10 * * * *', '17 3 * * *', '0 4 * * SUN', '0 0 29 2 *', ' 5  4 * * * '])(
    'accept %j',
    (text) => expect(cronExpression.safeParse(text).success).toBe(true),
  );
  it.each([
    '',
    '@daily',
    '* * * *',
    '0 * * * * *',
    '60 * * * *',
    '0 0 31 2 *',
    '0 24 * * *',
    '*/0 * * * *',
    'x y z a b',
  ])('refuse %j', (text) => expect(cronExpression.safeParse(text).success).toBe(false));
});
