import { describe, expect, it } from 'vitest';
import {
  contentsOf,
  whyHeldBack,
  type RowOfDay,
  type WindowContents,
} from '../../../src/sync/reports/range-contents.ts';
import { timeZone } from '../../../src/model/time-zone.ts';
import { windowsBetween } from '../../../src/sync/reports/report-days.ts';

const LIMITS = { max_part: 0.1, max_rows: 500 };
const READING = { reports: timeZone('UTC'), field: null, isLocal: false };
const WINDOWS = windowsBetween('2026-01-01', '2026-01-03', 'day');
const TAKEN = { isWhole: true, mayGo: () => true, reading: READING, field: 'date', granularity: 'day' } as const;

function rows(...of: [key: string, day: string][]): Map<string, RowOfDay> {
  return new Map(of.map(([key, day]) => [key, { hash: `h${key}`, day, syncedAt: '2026-01-01 00:00:00.000' }]));
}

function written(key: string, date: string, hash = `h${key}`) {
  return { key, hash, value: { date }, bytes: Buffer.alloc(0), updated: null, version: 1 };
}

describe('what becomes of windows', () => {
  const before = rows(['a', '2026-01-01'], ['b', '2026-01-01'], ['c', '2026-01-02']);

  it('is what the answer has: new rows, changed ones, and those that are gone', () => {
    const facts = {
      keys: ['a', 'c', 'd'],
      stated: [],
      written: [written('d', '2026-01-02'), written('a', '2026-01-01', 'new')],
    };
    const [first, second] = contentsOf(before, facts, WINDOWS, TAKEN);
    expect(first).toMatchObject({ before: 2, gone: ['b'], rows: 1, hasChanged: true });
    expect(second).toMatchObject({ before: 1, gone: [], rows: 2, hasChanged: true });
  });

  it('is nothing new where the answer says the same, in whatever order', () => {
    const facts = { keys: ['c', 'b', 'a'], stated: [], written: [] };
    const unchanged = contentsOf(before, facts, WINDOWS, TAKEN);
    expect(unchanged.map(({ hasChanged }) => hasChanged)).toEqual([false, false]);
    const other = contentsOf(new Map([...before].toReversed()), facts, WINDOWS, TAKEN);
    expect(other.map(({ digest }) => digest)).toEqual(unchanged.map(({ digest }) => digest));
  });

  it('loses nothing by an answer that may not be whole, nor what was written since, but tombstones', () => {
    const facts = { keys: ['a', 'b'], stated: [{ key: 'b', at: null }], written: [] };
    const kept = contentsOf(before, facts, WINDOWS, { ...TAKEN, isWhole: false });
    expect(kept.flatMap(({ gone }) => gone)).toEqual([]);
    const later = contentsOf(before, facts, WINDOWS, { ...TAKEN, mayGo: ({ day }) => day === '2026-01-01' });
    expect(later.flatMap(({ gone }) => gone)).toEqual(['b']);
  });

  it('follows a row that has moved from one window to another', () => {
    const facts = { keys: ['a', 'b', 'c'], stated: [], written: [written('a', '2026-01-02', 'moved')] };
    expect(contentsOf(before, facts, WINDOWS, TAKEN).map((window) => window.rows)).toEqual([1, 2]);
  });
});

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
  const contents: WindowContents = { window, before, gone: keys, rows: after, digest: '', hasChanged: true };
  const why = whyHeldBack(contents, LIMITS);
  expect(why ?? 'taken over').toMatch(held ?? /^taken over$/);
});
