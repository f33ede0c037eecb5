import { describe, expect, it } from 'vitest';
import { pageQuery, PAGINATIONS, type Pagination } from '../../../src/sandbox/pages/listing-page.ts';

const LIMITS = { fallback: 100, max: 500 };
const read = (query: string, style: Pagination) => pageQuery(new URL(`http://x/v1/content?${query}`), style, LIMITS);

describe('a query', () => {
  it.each<[Pagination, string, object]>([
    ['cursor', '', { start: { offset: 0 }, number: 1, cursor: null, limit: 100, since: null }],
    ['page', 'page=3&limit=10', { start: { offset: 20 }, number: 3, limit: 10 }],
    ['offset', 'offset=25&limit=10', { start: { offset: 25 }, number: 3 }],
    ['link', 'limit=9999', { limit: 500 }],
    ['cursor', 'updated_since=1700000000', { since: 1_700_000_000_000 }],
    ['cursor', 'updated_since=1700000000000', { since: 1_700_000_000_000 }],
    ['cursor', 'updated_since=2026-11-20T00:00:00Z', { since: Date.UTC(2026, 10, 20) }],
  ])('of style %s: %s', (style, query, expected) => {
    expect(read(query, style)).toMatchObject(expected);
  });

  it.each<[Pagination, string]>([
    ['cursor', 'limit=0'],
    ['cursor', 'limit=ten'],
    ['cursor', 'cursor=bm90IG91cnM'],
    ['page', 'page=0'],
    ['offset', 'offset=-1'],
    ['cursor', 'updated_since=yesterday'],
  ])('of style %s is refused: %s', (style, query) => {
    expect(() => read(query, style)).toThrow(
      expect.objectContaining({ answer: expect.objectContaining({ status: 400 }) }),
    );
  });

  it.each(PAGINATIONS)('of style %s may be empty', (style) => {
    expect(read('', style).number).toBe(1);
  });
});
