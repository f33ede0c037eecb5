import { describe, expect, it } from 'vitest';
import { createApiNotices, noticesIn } from '../../src/pagination/service-notices.ts';

const NOW = Date.parse('2026-11-20T12:00:00Z');
const ASKED = new URL('https://cms.example.com/v1/posts?page=2');

function heard(headers: Record<string, string | string[]>): string[] {
  return noticesIn(headers, ASKED, NOW).map(({ kind, value, path }) => `${kind} ${value} ${path}`);
}

describe('what an answer says of the end of an API', () => {
  it.each<[string, Record<string, string | string[]>, string[]]>([
    ['nothing', { 'content-type': 'application/json' }, []],
    ['nothing in a link to the next page', { link: '</v1/posts?page=3>; rel="next"' }, []],
    ['RFC 9745', { deprecation: '@1767225600' }, ['deprecation 2026-01-01T00:00:00Z /v1/posts']],
    ['RFC 9745, with a parameter', { deprecation: '@1767225600;x=1' }, ['deprecation 2026-01-01T00:00:00Z /v1/posts']],
    ['an older draft: true', { deprecation: 'true' }, ['deprecation yes /v1/posts']],
    [
      'an older draft: a date',
      { deprecation: 'Thu, 01 Jan 2026 00:00:00 GMT' },
      ['deprecation 2026-01-01T00:00:00Z /v1/posts'],
    ],
    ['false', { deprecation: 'false' }, []],
    ['something else', { deprecation: 'soon', sunset: 'later' }, []],
    ['a time beyond all calendars', { deprecation: '@999999999999' }, []],
    ['RFC 8594', { sunset: 'Thu, 31 Dec 2026 23:59:59 GMT' }, ['sunset 2026-12-31T23:59:59Z /v1/posts']],
    [
      'links, relative ones too',
      {
        link: [
          '</v1/posts?page=3>; rel="next", </docs/end>; rel="deprecation"; type="text/html"',
          '<https://other.example.com/v2/posts>; rel="successor-version sunset"',
        ],
      },
      [
        'about https://cms.example.com/docs/end /v1/posts',
        'successor https://other.example.com/v2/posts /v1/posts',
        'about https://other.example.com/v2/posts /v1/posts',
      ],
    ],
    ['a link to somewhere odd', { link: '<javascript:alert(1)>; rel="deprecation"' }, []],
    ['half a link', { link: '<https://a.example.com; rel="deprecation"' }, []],
  ])('%s', (_, headers, wanted) => {
    expect(heard(headers)).toEqual(wanted);
  });
});

describe('the board', () => {
  it('remembers each statement once, with when it was first and last heard', () => {
    let now = NOW;
    const board = createApiNotices({ now: () => now }, (text) => text);
    board.read({ deprecation: 'true' }, ASKED);
    now += 5_000;
    board.read({ deprecation: 'true' }, new URL('https://cms.example.com/v1/tags'));
    const notice = { kind: 'deprecation', value: 'yes', path: '/v1/posts', firstHeard: NOW, lastHeard: NOW + 5_000 };
    expect(board.since(NOW + 5_000)).toEqual([notice]);
    expect(board.since(NOW + 5_001)).toEqual([]);
  });
});
