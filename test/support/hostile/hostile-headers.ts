import { fieldVectors } from '../corpora.ts';
import type { Draw, HeaderLines, Tricks } from './transports.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** Fields that a client reads, and what they may hold that is no value of theirs. */
const FIELDS =
  'Retry-After RateLimit RateLimit-Policy X-RateLimit-Reset Date Age Link Content-Type Content-Length'.split(' ');
const NONSENSE = [
  fieldVectors().flatMap(({ raw = [] }) => raw),
  ['', '0', '-5', '3600', 'soon', '1,2,x', '1e400', '9'.repeat(400), '12, 13', 'application/json; charset=utf-16'],
  ['"a";r=1;t=1,'.repeat(500), '<'.repeat(5_000), '<a>;rel=x,'.repeat(1_200), '"\\"'.repeat(3_000)],
  ['Fri, 31 Dec 9999 23:59:59 GMT', 'Mon, 99 Foo 2026 99:99:99 GMT', `</a>;${' '.repeat(9_000)}x`],
]
  .flat()
  .filter((text) => !/[^\t -~\x80-\xff]/.test(text));

/** Headers that are added to an answer; a name that begins with `-` is taken out of it first. */
export const HEADERS: Tricks<HeaderLines> = {
  'field: nonsense': ({ random }) => {
    const name = random.pick(FIELDS);
    return [...(random.chance(0.7) ? [[`-${name}`, ''] as const] : []), [name, random.pick(NONSENSE)]];
  },
  'field: absent': ({ random }) => [[`-${random.pick(['Content-Type', 'Date'])}`, '']],
  'date: twice': ({ now }) => [['Date', new Date(now - HOUR).toUTCString()]],
  'date: an hour off': ({ now, random }) => dated(now + random.pick([-1, 1]) * random.whole(1, HOUR)),
  'date: days off': ({ now, random }) => dated(now + random.pick([-1, 1]) * random.whole(2, 40_000) * DAY),
  'link: elsewhere': (draw) => [['Link', `<${oddUrl(draw)}>; rel="next"`]],
  'link: several': ({ origin }) => [
    ['Link', `<${origin}/v1/content?from=5>; rel=next, <${origin}/v1/content?from=1>; rel="prev next"`],
    ['Link', `<${origin}/v1/content?from=9>; rel=next`],
  ],
  'link: in circles': ({ asked }) => [['Link', `<${asked.target}>; rel="next"`]],
  'length: a lie': ({ random }) => [
    ['-Content-Length', ''],
    ...random.pick<HeaderLines>([
      [['Content-Length', '1']],
      [['Content-Length', '99999999']],
      [['Content-Length', '-1']],
      [['Content-Length', '1e30']],
      [['Content-Length', '9'.repeat(40)]],
      [['Content-Length', '12, 13']],
      [
        ['Content-Length', '12'],
        ['Content-Length', '13'],
      ],
      [
        ['Content-Length', '12'],
        ['Transfer-Encoding', 'chunked'],
      ],
    ]),
  ],
  'headers: very many': ({ random }) =>
    Array.from({ length: random.pick([150, 600, 2_500]) }, (_, at) => [
      `X-Many-${at}`,
      'x'.repeat(random.pick([1, 20])),
    ]),
  'headers: very long': ({ random }) => [['X-Long', '\\"'.repeat(random.pick([2_000, 4_000, 100_000]))]],
  'headers: folded': ({ random }) => [
    [
      random.pick(['Link', 'Date', 'Retry-After', 'X-Folded']),
      `a\r\n b\r\n\tc${'\r\n d'.repeat(random.pick([1, 200]))}`,
    ],
  ],
  'headers: damaged': ({ random }) => [
    random.pick<readonly [string, string]>([
      ['X Space', '1'],
      ['', 'no name'],
      ['X-Nul', 'a\0b'],
      ['X-Bell\u0007', '1'],
      ['\u00e9', '1'],
      ['X-Return', 'a\rb'],
      ['__proto__', 'a'],
      ['constructor', 'a'],
      ['toString', 'a'],
    ]),
  ],
  'headers: cookies': () => Array.from({ length: 60 }, (_, at) => ['Set-Cookie', `c${at}=${'v'.repeat(40)}`]),
  'headers: another protocol': ({ random }) => [
    random.pick<readonly [string, string]>([
      ['Connection', 'upgrade'],
      ['Connection', 'close, keep-alive'],
      ['Keep-Alive', 'timeout=0, max=-1'],
      ['Transfer-Encoding', 'gzip, chunked'],
      ['Transfer-Encoding', 'identity'],
      ['Trailer', 'X-Later'],
      ['Upgrade', 'h2c'],
    ]),
  ],
  'headers: the credential': ({ credential, random }) => [
    ['X-Request-Id', random.pick([credential, `${'i'.repeat(70)}${credential}`])],
    ['X-Debug', Buffer.from(credential).toString('base64')],
  ],
};

/** Addresses that no client should follow with a credential, and some that it may. */
export function oddUrl({ random, asked, origin, foreign, credential }: Draw): string {
  return random.pick([
    asked.target,
    `${foreign}/v1/content?cursor=1`,
    `${origin.replace('//', '//me:you@')}/v1/content`,
    `${origin}/v1/content?key=${encodeURIComponent(credential)}&from=5`,
    `${origin}/v1/../../etc/passwd`,
    `${origin}/v1/content?from=%0d%0aX:%20y`,
    `${origin}/v1/content?from=%ff%fe`,
    `//${foreign.replace('http://', '')}/v1/content`,
    'javascript:void(0)',
    'data:application/json,{}',
    'http://[',
    'http:///',
    '\\\\evil\\share',
    '?',
    '#',
    `?from=${'9'.repeat(4_000)}`,
  ]);
}

function dated(at: number): HeaderLines {
  return [
    ['-Date', ''],
    ['Date', new Date(at).toUTCString()],
  ];
}
