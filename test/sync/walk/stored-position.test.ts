import { describe, expect, it } from 'vitest';
import { positionFrom, storedPosition } from '../../../src/sync/walk/stored-walk.ts';

const plain = (text: string): string => text;
const scrub = (text: string): string => text.replaceAll('s3cret', '***');

describe('a position in a checkpoint', () => {
  it('keeps what the page sends in headers and body, and fills in the templates of the profile again', () => {
    const position = `/posts?q=a&since=2026#${encodeURIComponent('{"body:after":"x"}')}`;
    const query = { q: 'a', since: '{since}' };
    const stored = storedPosition(position, query, plain);
    expect(stored).toBe(`/posts#${encodeURIComponent('{"body:after":"x"}')}`);
    expect(positionFrom(stored, query, { since: '2026' })).toBe(position);
  });

  it('is the beginning if a secret stands in its headers or body', () => {
    const position = `/posts#${encodeURIComponent('{"header:X-After":"s3cret"}')}`;
    expect(storedPosition(position, {}, scrub)).toBeNull();
  });
});
