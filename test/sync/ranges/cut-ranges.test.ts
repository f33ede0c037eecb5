import { expect, it } from 'vitest';
import { cutRanges } from '../../../src/sync/ranges/cut-ranges.ts';

it('cuts all pages into ranges that overlap by one, none of them too short', () => {
  for (const pages of [8, 9, 100, 1_001]) {
    const ranges = cutRanges(pages, 4, 3);
    expect(ranges[0]?.first).toBe(0);
    expect(ranges.at(-1)?.border).toBeNull();
    for (const [index, { first, border }] of ranges.entries()) {
      expect((border ?? pages) - first).toBeGreaterThanOrEqual(4);
      expect(ranges[index + 1]?.first ?? null).toBe(border);
    }
  }
});

it('cuts nothing for one process, nor a listing of too few pages', () => {
  expect(cutRanges(1_000, 4, 1)).toEqual([]);
  expect(cutRanges(7, 4, 8)).toEqual([]);
});
