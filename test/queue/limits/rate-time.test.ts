import { describe, expect, it } from 'vitest';
import { countIn, LONGEST_WAIT_MS, longestWait, milliseconds, waitIn } from '../../../src/queue/limits/rate-time.ts';

const NOW = Date.parse('2026-11-20T08:00:00Z');

describe('a stated time', () => {
  it.each<[string, Parameters<typeof waitIn>[1], number | null]>([
    ['7', 's', 7_000],
    ['1.5', 's', 1_500],
    ['7', 'ms', 7],
    [String(NOW / 1_000 + 30), 's', 30_000],
    [String(NOW / 1_000 + 30), 'auto', 30_000],
    [String(NOW + 30_000), 'auto', 30_000],
    [String(NOW / 1_000 + 30), 'epoch_s', 30_000],
    [String(NOW + 30), 'epoch_ms', 30],
    ['2026-11-20T08:00:05Z', 'iso', 5_000],
    ['1m30s', 'duration', 90_000],
    ['250ms', 'auto', 250],
    ['Fri, 20 Nov 2026 08:00:10 GMT', 'http_date', 10_000],
    [String(NOW / 1_000 - 60), 'epoch_s', 0],
    [String(NOW / 1_000 - 7_200), 'epoch_s', null],
    ['soon', 'auto', null],
    ['-5', 's', null],
    ['99999999999999999', 'ms', LONGEST_WAIT_MS],
  ])('%s as %s', (text, unit, wait) => {
    expect(waitIn(text, unit, NOW)).toBe(wait);
  });

  it('that came twice is the longer, and none if one cannot be read', () => {
    expect(longestWait('3, 9', 'auto', NOW)).toBe(9_000);
    expect(longestWait('Fri, 20 Nov 2026 08:00:10 GMT, 3', 'auto', NOW)).toBe(10_000);
    expect(longestWait('3, soon', 'auto', NOW)).toBeNull();
  });
});

it('a count is a plain number that a number can hold', () => {
  expect(['0', '5.5', '', '-1', '1e3', '9'.repeat(400)].map(countIn)).toEqual([0, 5.5, null, null, null, null]);
  expect([undefined, 0, 2, 1e300].map(milliseconds)).toEqual([null, 0, 2_000, LONGEST_WAIT_MS]);
});
