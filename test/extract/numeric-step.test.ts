import { describe, expect, it } from 'vitest';
import { isNumericStep } from '../../src/extract/numeric-step.ts';

describe('a link to the next page', () => {
  it.each([
    ['/a?page=2', '/a?page=3'],
    ['/a?limit=50', '/a?limit=50&page=2'],
    ['/a?limit=50', '/a?limit=50&offset=50'],
    ['/a?start=50&limit=50', '/a?limit=50&start=100'],
  ])('numbers its pages from %s to %s', (position, next) => {
    expect(isNumericStep(position, next, 50)).toBe(true);
  });

  it.each([
    ['/a?cursor=abc', '/a?cursor=def'],
    ['/a?after=10231', '/a?after=18842'],
    ['/a?page=2', '/a?page=2'],
    ['/a?page=2&token=a', '/a?page=3&token=b'],
    ['/a', '/a?since=8812'],
  ])('does not number them from %s to %s', (position, next) => {
    expect(isNumericStep(position, next, 50)).toBe(false);
  });
});
