import { describe, expect, it } from 'vitest';
import { readServerTime, parseHttpDate } from '../../src/model/timestamp-text.ts';

const NOW = Date.parse('2026-11-20T08:00:00Z');
const DAY_MS = 86_400_000;

describe('an HTTP-date', () => {
  it.each([
    ['IMF-fixdate', 'Sun, 06 Nov 1994 08:49:37 GMT', '1994-11-06T08:49:37Z'],
    ['RFC 850', 'Sunday, 06-Nov-94 08:49:37 GMT', '1994-11-06T08:49:37Z'],
    ['asctime', 'Sun Nov  6 08:49:37 1994', '1994-11-06T08:49:37Z'],
    ['a leap day', 'Tue, 29 Feb 2028 00:00:00 GMT', '2028-02-29T00:00:00Z'],
  ])('is read as %s', (_form, text, iso) => {
    expect(parseHttpDate(text)).toBe(Date.parse(iso));
  });

  it.each([
    '',
    '2026-11-20T08:00:00Z',
    'Fri, 20 Nov 2026 08:00:00',
    'Fri, 20 Nov 2026 08:00:00 +0000',
    'fri, 20 nov 2026 08:00:00 gmt',
    'Fri, 20 Nov +275760 00:00:00 GMT',
    'Fri, 20 Foo 2026 08:00:00 GMT',
    'Tue, 31 Feb 2026 08:00:00 GMT',
    'Fri, 00 Nov 2026 08:00:00 GMT',
    'Fri, 20 Nov 2026 24:00:00 GMT',
    'Fri, 20 Nov 2026 08:60:00 GMT',
    'Fri, 20 Nov 2026 08:00:61 GMT',
    'Fri, 20 Nov 2026 08:00:00 GMT, Fri, 20 Nov 2026 08:00:00 GMT',
  ])('is not %j', (text) => {
    expect(parseHttpDate(text)).toBeNull();
  });
});

const dated = (ms: number): string => new Date(ms).toUTCString();

describe('the clock of the other side', () => {
  it.each([0, 1_000, -1_000, 3_600_000, DAY_MS, -DAY_MS])('is accepted with a difference of %i ms', (off) => {
    expect(readServerTime(dated(NOW + off), NOW)).toBe(NOW + off);
  });

  it.each([DAY_MS + 1_000, -DAY_MS - 1_000, 400 * DAY_MS, -NOW, Date.parse('9999-12-31T23:59:59Z') - NOW])(
    'is ignored with a difference of %i ms',
    (off) => {
      expect(readServerTime(dated(NOW + off), NOW)).toBeNull();
    },
  );

  it.each([undefined, '', 'soon', [dated(NOW), dated(NOW)]])('is unknown with the header %j', (header) => {
    expect(readServerTime(header, NOW)).toBeNull();
  });
});
