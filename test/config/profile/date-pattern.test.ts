import { describe, expect, it } from 'vitest';
import { hasOffset, parsePattern, patternStep, writePattern } from '../../../src/config/profile/incremental.ts';

const MOMENT = Date.parse('2026-03-04T05:06:07.089Z');

function written(pattern: string, offsetMinutes?: number): string | null {
  const parts = parsePattern(pattern);
  return parts === null ? null : writePattern(parts, MOMENT, offsetMinutes);
}

describe('a date pattern', () => {
  it.each([
    ['yyyy-MM-dd HH:mm:ss', '2026-03-04 05:06:07', 1_000],
    ["yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", '2026-03-04T05:06:07.089Z', 1],
    ["yyyy-MM-dd'T'HH:mmXXX", '2026-03-04T05:06Z', 60_000],
    ['dd.MM.yyyy', '04.03.2026', 86_400_000],
    ['yyyyMMddHH', '2026030405', 3_600_000],
    ["'since' yyyy-MM-dd 'o''clock'", "since 2026-03-04 o'clock", 86_400_000],
  ])('%s writes %s', (pattern, text, step) => {
    expect(written(pattern)).toBe(text);
    expect(patternStep(parsePattern(pattern) ?? [])).toBe(step);
  });

  it.each([
    ['XXX', '+05:30', '-03:00'],
    ['XX', '+0530', '-0300'],
  ])('writes an offset by %s', (field, east, west) => {
    const pattern = `yyyy-MM-dd HH:mm${field}`;
    expect([written(pattern, 330), written(pattern, -180)]).toEqual([
      `2026-03-04 05:06${east}`,
      `2026-03-04 05:06${west}`,
    ]);
    expect(hasOffset(parsePattern(pattern) ?? [])).toBe(true);
  });

  it.each([
    ['', 'says nothing'],
    ['yyyy-MM', 'shows no day'],
    ['yyyy-MM-dd mm', 'leaves the hour out'],
    ['HH:mm:ss', 'shows no date'],
    ['yyyy-MM-ddTHH:mm', 'has text without quotes'],
    ['YYYY-MM-DD', 'is that of another language'],
    ['%Y-%m-%d', 'is that of strftime'],
    ["yyyy-MM-dd'T", 'has a quote that is left open'],
    ['yyyy-MM-dd hh:mm', 'has an hour that is there twice a day'],
    ['d.M.yyyy', 'has fields without a leading zero'],
  ])('%s is none: it %s', (pattern) => {
    expect(parsePattern(pattern)).toBe(null);
  });
});
