import { describe, expect, it } from 'vitest';
import { changesOf } from './oracle.ts';
import { windThrough, YEAR, ZONES } from './year.ts';
import { sampled } from '../../support/length.ts';

const DAY = 86_400_000;

describe('F073 every-minute and daily schedules by a hand-wound clock', () => {
  it.each(sampled(ZONES, 2))(
    'run each minute and each day once over both clock changes of the year in %s',
    async (zone) => {
      const changes = changesOf(zone, ...YEAR);
      expect(changes).toHaveLength(zone === 'UTC' ? 0 : 2);
      // Where there is none, a month's and a leap day's end.
      const days = changes.length > 0 ? changes : [Date.parse('2026-12-31'), Date.parse('2028-02-28')];
      for (const day of days) expect(await windThrough(zone, day, day + 2 * DAY)).toBe(2 * 1_440);
    },
  );
});
