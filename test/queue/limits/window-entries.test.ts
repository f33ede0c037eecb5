import { describe, expect, it } from 'vitest';
import { windowEntries } from '../../../src/queue/limits/window-entries.ts';
import { rateDialectSchema } from '../../../src/source/rate-dialect.ts';

describe('a limit header with a window in its name', () => {
  const entry = rateDialectSchema
    .parse({ base: 'none', headers: [{ name: 'X-Limit-{window}', means: 'limit' }] })
    .headers.find(({ at }) => at.includes('{window}'));

  it('stands for a header of each window, each a quota of its own', () => {
    const entries = entry === undefined ? [] : windowEntries(entry);
    expect(entries.map(({ at }) => at)).toEqual(
      ['second', 'minute', 'hour', 'day', 'month'].map((word) => `x-limit-${word}`),
    );
    expect(new Set(entries.map(({ group }) => group)).size).toBe(5);
    expect(entries.map(({ window_ms }) => window_ms)).toEqual([1_000, 60_000, 3_600_000, 86_400_000, 2_592_000_000]);
  });
});
