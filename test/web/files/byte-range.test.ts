import { expect, it } from 'vitest';
import { parseByteRange } from '../../../src/web/files/byte-range.ts';

it.each([
  ['bytes=0-9', 100, { from: 0, bytes: 10 }],
  ['bytes=90-', 100, { from: 90, bytes: 10 }],
  ['bytes=90-1000', 100, { from: 90, bytes: 10 }],
  ['bytes=-10', 100, { from: 90, bytes: 10 }],
  ['bytes=-1000', 100, { from: 0, bytes: 100 }],
  ['bytes= 5 - 5', 100, { from: 5, bytes: 1 }],
  ['bytes=100-', 100, 'unmet'],
  ['bytes=100-200', 100, 'unmet'],
  ['bytes=-0', 100, 'unmet'],
  ['bytes=0-', 0, 'unmet'],
  ['bytes=-5', 0, 'unmet'],
  ['', 100, 'none'],
  ['bytes=9-5', 100, 'none'],
  ['bytes=0-1,3-4', 100, 'none'],
  ['items=0-1', 100, 'none'],
  ['bytes=a-b', 100, 'none'],
  ['bytes=99999999999999999999-', 100, 'none'],
] as const)('of %j in %i bytes', (header, length, expected) => {
  expect(parseByteRange(header, length)).toEqual(expected);
});
