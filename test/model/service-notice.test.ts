import { describe, expect, it } from 'vitest';
import { daysLeft, mergeNotices, describeApiLifetime, type HeardNotice } from '../../src/model/service-notice.ts';

const DAY = 86_400_000;
const NOW = Date.parse('2026-11-20T12:00:00Z');

function notice(kind: HeardNotice['kind'], value: string, daysAgo = 0): HeardNotice {
  const at = NOW - daysAgo * DAY;
  return { kind, value, path: `/${kind}`, firstHeard: at - DAY, lastHeard: at };
}

function textOf(...notices: HeardNotice[]): string {
  const lifetime = mergeNotices(notices);
  if (lifetime === null) throw new Error('nothing was heard');
  return describeApiLifetime(lifetime, NOW).what;
}

describe('how long an API will be there', () => {
  it('is not known where nothing was heard', () => {
    expect(mergeNotices([])).toBeNull();
  });

  it('is told by all statements together, the most pressing of each kind', () => {
    const lifetime = mergeNotices([
      notice('deprecation', 'yes'),
      notice('sunset', '2027-03-01T00:00:00Z', 2),
      notice('sunset', '2026-12-31T12:00:00Z', 1),
      notice('about', 'https://a.example.com/end'),
      notice('successor', 'https://a.example.com/v2'),
    ]);
    expect(lifetime).toEqual({
      deprecated: { at: null },
      sunset_at: Date.parse('2026-12-31T12:00:00Z'),
      path: '/sunset',
      about: 'https://a.example.com/end',
      successor: 'https://a.example.com/v2',
    });
    expect(lifetime && daysLeft(lifetime, NOW)).toBe(41);
  });

  it('forgets what was not said again for a week', () => {
    const lifetime = mergeNotices([
      notice('sunset', '2026-12-01T00:00:00Z', 8),
      notice('sunset', '2027-12-01T00:00:00Z'),
    ]);
    expect(lifetime?.sunset_at).toBe(Date.parse('2027-12-01T00:00:00Z'));
  });

  it.each<[string, HeardNotice[], string]>([
    ['a date past', [notice('deprecation', '2026-01-01T00:00:00Z')], 'is deprecated since 2026-01-01 (/deprecation)'],
    ['a date to come', [notice('deprecation', '2027-01-01T00:00:00Z')], 'will be deprecated on 2027-01-01'],
    ['no date', [notice('deprecation', 'yes')], 'this version of its API is deprecated (/deprecation)'],
    ['an end', [notice('sunset', '2026-11-22T12:00:00Z')], 'ends on 2026-11-22, in 2 days (/sunset)'],
    ['an end tomorrow', [notice('sunset', '2026-11-21T12:00:00Z')], 'ends on 2026-11-21, in 1 day ('],
    ['an end that is past', [notice('sunset', '2026-11-20T11:00:00Z')], 'was to end on 2026-11-20 ('],
    [
      'a page alone',
      [notice('about', 'https://a.example.com')],
      'names pages about the end of its API and says no date',
    ],
  ])('is said in words: %s', (_, notices, text) => {
    expect(textOf(...notices)).toContain(text);
  });
});
