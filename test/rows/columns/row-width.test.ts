import { describe, expect, it } from 'vitest';
import { initialShape, shapeRecords } from '../../../src/rows/shape-page.ts';
import { PROFILE, rowsOf, shapePage, shapePages } from '../shaping.ts';

const fields = (count: number, value: string): string =>
  Array.from({ length: count }, (_, at) => `"f${at}":${value}`).join(',');
const TEXT = `"${'x'.repeat(23)}"`;

describe('a row that no page of Postgres holds', () => {
  it('F111 keeps what fits in columns and the rest, from the last column on, in _overflow', () => {
    const page = shapePage([`{"id":1,${fields(400, TEXT)}}`, `{"id":2,${fields(300, TEXT)}}`], { max_columns: 900 });
    const [wide, narrow] = rowsOf(page, 'content');
    const overflow: Record<string, unknown> = JSON.parse(String(wide?.['_overflow']));
    expect(Object.keys(overflow)).toContain('f399');
    for (let at = 0; at < 400; at += 1) {
      expect([wide?.[`f${at}`] ?? null, overflow[`f${at}`] ?? null].filter((value) => value !== null)).toHaveLength(1);
    }
    expect(page.overflowed).toBe(Object.keys(overflow).length);
    expect(narrow).toMatchObject({ f299: 'x'.repeat(23), _overflow: null });
  });

  it('F111 settles at once, and is the same in the next run', () => {
    const text = `{"id":1,${fields(400, TEXT)}}`;
    const [first, second] = shapePages([[text], [text]], { max_columns: 900 });
    expect(second?.shape).toBe(first?.shape);
    expect(second?.rows).toEqual(first?.rows);
  });

  it('F111 is none as long as its values are short, or long enough to be stored elsewhere', () => {
    for (const value of ['5', '"short"', `"${'y'.repeat(500)}"`, '1.5', 'true', '"2026-01-01T00:00:00Z"']) {
      expect(shapePage([`{"id":1,${fields(430, value)}}`], { max_columns: 900 }).overflowed).toBe(0);
    }
  });

  it('F111 under a contract is set aside or leaves out what does not fit', () => {
    const pages = [[`{"id":1,${fields(400, '"a"')}}`], [`{"id":2,${fields(400, TEXT)}}`]];
    const discarded = shapePages(pages, { max_columns: 900, contract: 'discard_row' })[1];
    expect(discarded?.rejects).toMatchObject([{ reason: 'contract' }]);
    const left = shapePages(pages, { max_columns: 900, contract: 'discard_value' })[1];
    expect(left?.discarded).toBeGreaterThan(50);
    expect(() => shapePages(pages, { max_columns: 900, contract: 'freeze' })).toThrow('does not fit');
  });
});

describe('a record', () => {
  it('F106 larger than any value of Postgres is set aside', () => {
    const records = [{ key: '1', value: { a: 1 }, bytes: Buffer.alloc((192 << 20) + 1) }];
    const page = shapeRecords({ shape: initialShape('content', PROFILE), profile: PROFILE, records });
    expect(page.rejects).toMatchObject([{ index: 0, reason: 'too_large' }]);
  });
});
