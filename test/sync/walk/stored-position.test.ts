import { describe, expect, it } from 'vitest';
import { positionFrom, storedPosition } from '../../../src/sync/walk/stored-walk.ts';

const QUERY = { key: 'k3y', state: 'all live' };
const plain = (text: string): string => text;
const scrub = (text: string): string => text.replaceAll('s3cret', '***');

describe('a position in a checkpoint', () => {
  it("has none of the profile's own parameters, and gets them back when the walk goes on", () => {
    const position = '/v1/content?key=k3y&state=all%20live&cursor=abc';
    const stored = storedPosition(position, QUERY, plain);
    expect(stored).toBe('/v1/content?cursor=abc');
    expect(positionFrom(stored, QUERY, {})).toBe('/v1/content?cursor=abc&key=k3y&state=all%20live');
  });

  it('is the beginning if the service wrote a secret into it', () => {
    expect(storedPosition('/v1/content?cursor=s3cret', {}, scrub)).toBeNull();
    expect(storedPosition('/v1/content?cursor=abc', {}, scrub)).toBe('/v1/content?cursor=abc');
  });

  it('stays as it is without parameters of the profile, byte for byte', () => {
    const position = '/v1/content?a=b+c&cursor=%2f';
    expect(storedPosition(position, {}, plain)).toBe(position);
    expect(positionFrom(position, {}, {})).toBe(position);
  });

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

  it('is null for the beginning', () => {
    expect(storedPosition(null, QUERY, plain)).toBeNull();
    expect(positionFrom(null, QUERY, {})).toBeNull();
  });
});
