import { describe, expect, it } from 'vitest';
import { isNumericStep } from '../../../src/pagination/page-reader.ts';

describe('a link to the next page', () => {
  it.each([
    ['/a?page=2', '/a?page=3'],
    ['/a?limit=50', '/a?limit=50&page=2'],
    ['/a?limit=50', '/a?limit=50&offset=50'],
    ['/a?start=50&limit=50', '/a?limit=50&start=100'],
    ['/a?cursor=50', '/a?cursor=100'],
    ['/a', '/a?after=YXJyYXljb25uZWN0aW9uOjQ5'],
    ['/a?after=YXJyYXljb25uZWN0aW9uOjQ5', '/a?after=YXJyYXljb25uZWN0aW9uOjk5'],
  ])('numbers its pages from %s to %s', (position, next) => {
    expect(isNumericStep({ url: position }, { url: next }, 50)).toBe(true);
  });

  it.each([
    ['/a?cursor=abc', '/a?cursor=def'],
    ['/a?after=10231', '/a?after=18842'],
    ['/a?page=2', '/a?page=2'],
    ['/a?page=2&token=a', '/a?page=3&token=b'],
    ['/a', '/a?since=8812'],
    ['/a', '/a?cursor=2026-01-01T00:00:50Z'],
    ['/a?cursor=eyJhdCI6MTAsImlkIjo1fQ', '/a?cursor=eyJhdCI6NjAsImlkIjo5fQ'],
  ])('does not number them from %s to %s', (position, next) => {
    expect(isNumericStep({ url: position }, { url: next }, 50)).toBe(false);
  });
});
