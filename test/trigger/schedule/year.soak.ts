import { describe, expect, it } from 'vitest';
import { windThrough, YEAR, ZONES } from './year.ts';

describe('F073 a year of every-minute and daily schedules by a hand-wound clock', () => {
  it.each(ZONES)('runs each minute and each day once in %s', async (zone) => {
    const runs = await windThrough(zone, ...YEAR);
    expect(runs).toBe(365 * 1_440);
    console.log(`${zone}: ${runs} runs, none missed, none twice`);
  });
});
