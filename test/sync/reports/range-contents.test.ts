import { expect, it } from 'vitest';
import { whyHeldBack, type WindowContents } from '../../../src/sync/reports/replace-range.ts';

const LIMITS = { max_part: 0.1, max_rows: 500 };

it.each<[what: string, before: number, gone: number, after: number, held: RegExp | null]>([
  ['nothing', 100, 0, 100, null],
  ['all there was', 100, 100, 0, /all of its 100 rows/],
  ['its only row', 1, 1, 0, /its only row/],
  ['its only row for another', 1, 1, 1, null],
  ['few of few', 12, 10, 2, null],
  ['as much as is allowed', 1_000, 100, 900, null],
  ['more than that', 1_000, 101, 900, /101 of 1000 live rows would be deleted: more than 100/],
  ['more than ever may', 90_000, 501, 90_000, /more than 500/],
])('an answer that takes away %s is held back, or not', (_, before, gone, after, held) => {
  const window = { start: '2026-01-01', end: '2026-01-02' };
  const keys = Array.from({ length: gone }, String);
  const contents: WindowContents = { window, before, gone: keys, rows: after, hasChanged: true };
  const why = whyHeldBack(contents, LIMITS);
  expect(why ?? 'taken over').toMatch(held ?? /^taken over$/);
});
