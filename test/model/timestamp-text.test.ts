import { expect, it } from 'vitest';
import { timestampMs, timestampText } from '../../src/model/timestamp-text.ts';

it('a timestamp is UTC text that sorts as time does, and leads back', () => {
  const moments = [0, 999, 1_000, Date.UTC(2026, 10, 20, 14, 5, 9, 7)];
  const texts = moments.map(timestampText);
  expect(texts.at(-1)).toBe('2026-11-20 14:05:09.007');
  expect(texts.toSorted()).toEqual(texts);
  expect(texts.map(timestampMs)).toEqual(moments);
});

it('anything else is no moment', () => {
  expect(timestampMs('yesterday')).toBeNaN();
});
