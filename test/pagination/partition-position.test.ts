import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { joinPosition, splitPosition } from '../../src/pagination/partitioned-walk.ts';
import { positionFrom, storedPosition } from '../../src/sync/walk/stored-walk.ts';

const DOUBT = { code: 'fewer', message: 'a b', hint: '100% /é' } as const;
const same = (text: string): string => text;

describe('a position in one of several listings', () => {
  it('is one text from which both can be read, whatever the value holds', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.nat(), (partition, records) => {
        const place = { partition, records, leastTotal: null, doubts: [DOUBT] };
        const position = joinPosition(place, '/v1/posts?cursor=a%20b#x');
        expect(position).toMatch(/^\/\S+ \/v1/);
        expect(splitPosition(position)).toEqual({ place, inner: '/v1/posts?cursor=a%20b#x' });
      }),
    );
  });

  it('is any other position as it was', () => {
    expect(splitPosition('/v1/posts?a=b%20c')).toEqual({ place: null, inner: '/v1/posts?a=b%20c' });
  });

  it.each(['/%5B%5D /x', '/x /y', '/%E0%A4%A /x', '/%5B1%2C0%2Cnull%2C%5B%5D%5D /x'])(
    'is refused if damaged: %s',
    (position) => {
      expect(() => splitPosition(position)).toThrow(expect.objectContaining({ code: 'bad_position' }));
    },
  );

  it('is stored without the parameters of the profile, which come back with the value of its listing', () => {
    const place = { partition: 'd/e', records: 2, leastTotal: 5, doubts: [] };
    const query = { key: 's3cret', locale: '{partition}' };
    const stored = storedPosition(joinPosition(place, '/p?key=s3cret&locale=d%2Fe&cursor=1'), query, same);
    expect(stored).toBe(joinPosition(place, '/p?cursor=1'));
    const whole = joinPosition(place, '/p?cursor=1&key=s3cret&locale=d%2Fe');
    expect(positionFrom(stored, query, {})).toBe(whole);
    expect(positionFrom(storedPosition(joinPosition(place, ''), query, same), query, {})).toBe(joinPosition(place, ''));
  });
});
