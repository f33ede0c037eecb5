import type { Draw, HeaderLines, Tricks } from './transports.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

const DAY_S = 86_400;
const MONTH_S = 31 * DAY_S;
const ABSURD = ['999999999999', '1e400', '9'.repeat(400), '253402300799', '99999999999999999'];
const NONSENSE = ['', '-5', 'soon', '1 minute', 'null', '0x10', '1,2,x', '\u00bd', '++1', 'Infinity', '1e3', '12:00'];

/** Headers that state a wait or a limit, in every grammar that somebody uses and in none. */
const WAITS: Tricks<HeaderLines> = {
  'wait: none': ({ random }) => [['Retry-After', random.pick(['0', '0.0', '-0', '00'])]],
  'wait: short': (draw) => stated(draw, draw.random.pick([0.2, 0.5, 1])),
  'wait: hours': (draw) => stated(draw, draw.random.whole(60, DAY_S)),
  'wait: up to a month': (draw) => stated(draw, draw.random.whole(DAY_S + 1, MONTH_S)),
  'wait: absurd': ({ random, now }) => [
    ['Retry-After', random.pick([...ABSURD, new Date(now + 4_000 * MONTH_S * 1_000).toUTCString()])],
  ],
  'wait: in the past': ({ now, random }) => [
    ['Retry-After', new Date(now - random.whole(1, 4_000) * DAY_S * 1_000).toUTCString()],
  ],
  'wait: nonsense': ({ random }) => [['Retry-After', random.pick(NONSENSE)]],
  'wait: twice': ({ random }) => [
    ['Retry-After', random.pick(['1', 'x', '7200'])],
    ['Retry-After', random.pick(['0', '1', '600'])],
  ],
  'limit: standard': ({ random }) => {
    const [left, reset] = [random.pick([0, 0, 1, 100]), random.pick([1, 2, 3_600, MONTH_S])];
    return [
      ['RateLimit', `"default";r=${left};t=${reset}`],
      ['RateLimit-Policy', `"default";q=${random.pick([1, 10, 1_000])};w=${random.pick([1, 60, DAY_S])}`],
    ];
  },
  'limit: earlier drafts': ({ random }) => [
    ['RateLimit-Limit', random.pick(['10', '10, 10;w=1', '0', '100;w=60, 5;w=1'])],
    ['RateLimit-Remaining', random.pick(['0', '1', '9', '-1'])],
    ['RateLimit-Reset', random.pick(['1', '0', '50', '-3'])],
  ],
  'limit: standard, damaged': ({ random }) => [
    [
      'RateLimit',
      random.pick([
        '"default";r=;t=1',
        '";;;',
        `"${'\\'.repeat(4_000)}`,
        '"a";r=1;t=1,'.repeat(500),
        '"a";r=999999999999999;t=999999999999999',
        '"a";r=-1;t=-1',
        '"__proto__";r=0;t=1',
        ':YQ==:;r=1',
        `"a"${';x=1'.repeat(1_000)}`,
      ]),
    ],
    ['RateLimit-Policy', random.pick(['"a";q=0;w=0', '"a";q=1e9', '(((((', '"p";q=1;w=1,'.repeat(700)])],
  ],
  'limit: by vendors': (draw) => [
    [`X-RateLimit-Limit`, draw.random.pick(['10', '0', '60', '1e9', '10/60'])],
    [`X-RateLimit-Remaining`, draw.random.pick(['0', '1', '59', 'none', '-4'])],
    [`X-RateLimit-Reset`, written(draw, draw.random.pick([0, 1, 2, 3_600, DAY_S]))],
  ],
  'limit: by vendors, damaged': ({ random }) => [
    ['X-RateLimit-Limit', random.pick(['', 'x'.repeat(9_000), '1,1,1,1', '\u00ff', '9'.repeat(400)])],
    ['X-RateLimit-Remaining', random.pick(['9'.repeat(400), '1e308', 'NaN', ''])],
    ['X-RateLimit-Reset', random.pick(['soon', '-1e9', '0.0000001', '2026-13-45T99:99:99Z', ''])],
    ['X-RateLimit-Bucket', random.pick(['a', '__proto__', 'b'.repeat(4_000)])],
  ],
};

function stated(draw: Draw, seconds: number): HeaderLines {
  const name = draw.random.pick([
    'Retry-After',
    'Retry-After',
    'Retry-After',
    'X-RateLimit-Reset-After',
    'Retry-After-Ms',
  ]);
  return [[name, name === 'Retry-After-Ms' ? String(seconds * 1_000) : written(draw, seconds)]];
}

/** So many seconds from now, in one of the grammars that are in use. */
function written({ random, now }: Draw, seconds: number): string {
  const at = now + seconds * 1_000;
  const [weekday = '', day = '', month = '', year = '', time = ''] = new Date(at).toUTCString().split(/,? /);
  return random.pick([
    String(seconds),
    String(seconds),
    seconds.toFixed(3),
    new Date(at).toUTCString(),
    new Date(at).toISOString(),
    `${weekday} ${month} ${day.replace(/^0/, ' ')} ${time} ${year}`,
    String(Math.round(at / 1_000)),
    String(Math.round(at)),
    `${Math.ceil(seconds / 60)}m`,
    `${Math.ceil(seconds / 3_600)}h`,
    `${Math.floor(seconds / 60)}m${Math.ceil(seconds % 60)}s`,
    `PT${Math.ceil(seconds)}S`,
  ]);
}

/** Headers that are added to an answer; a name that begins with `-` is taken out of it first. */
export const HEADERS: Tricks<HeaderLines> = {
  ...WAITS,
  'date: absent': () => [['-Date', '']],
  'date: twice': ({ now }) => [['Date', new Date(now - HOUR).toUTCString()]],
  'date: an hour off': ({ now, random }) => dated(now + random.pick([-1, 1]) * random.whole(1, HOUR)),
  'date: days off': ({ now, random }) => dated(now + random.pick([-1, 1]) * random.whole(2, 40_000) * DAY),
  'date: absurd': ({ random }) => [
    ['-Date', ''],
    [
      'Date',
      random.pick([
        '',
        '0',
        '-1',
        '2026',
        '99999999',
        'NaN',
        '+275760-09-13T00:00:00Z',
        '-271821-04-20T00:00:00Z',
        'Fri, 31 Dec 9999 23:59:59 GMT',
        'Sat, 01 Jan 12026 00:00:00 GMT',
        'Thu, 01 Jan 1970 00:00:00 GMT',
        'Mon, 99 Foo 2026 99:99:99 GMT',
        'Sunday, 06-Nov-94 08:49:37 GMT',
        'Sun Nov  6 08:49:37 1994',
      ]),
    ],
  ],
  age: ({ random }) => [['Age', random.pick(['0', '60', '-1', '1e9', '9'.repeat(40), 'old', ''])]],
  'link: malformed': ({ random, origin }) => [
    [
      'Link',
      random.pick([
        '<',
        '>;rel=next',
        `<${origin}/v1/content; rel="next"`,
        `<${origin}/v1/content?from=1>; rel="next`,
        `<>; rel=next`,
        ',,,,;;;;',
        '<'.repeat(5_000),
        '<a>;rel=x,'.repeat(1_200),
        '"\\"'.repeat(3_000),
        `</a>; rel="${'\\'.repeat(6_000)}`,
        `</a>${'; x="\\"\\""'.repeat(900)}`,
        `</a>;${' '.repeat(9_000)}x`,
      ]),
    ],
  ],
  'link: elsewhere': (draw) => [['Link', `<${oddUrl(draw)}>; rel="next"`]],
  'link: several': ({ origin }) => [
    ['Link', `<${origin}/v1/content?from=5>; rel=next, <${origin}/v1/content?from=1>; rel="prev next"`],
    ['Link', `<${origin}/v1/content?from=9>; rel=next`],
  ],
  'link: in circles': ({ asked }) => [['Link', `<${asked.target}>; rel="next"`]],
  'type: odd': ({ random }) => [
    ['-Content-Type', ''],
    ...random.pick<HeaderLines>([
      [],
      [['Content-Type', 'text/html']],
      [['Content-Type', 'application/json; charset=utf-16']],
      [['Content-Type', 'application/json; charset=latin1']],
      [['Content-Type', 'application/json; charset=x-none']],
      [['Content-Type', `application/json;${' '.repeat(4_000)}charset`]],
      [['Content-Type', `text/plain; charset="${'x'.repeat(5_000)}`]],
      [['Content-Type', '\u00ff\u00ff']],
      [
        ['Content-Type', 'application/json'],
        ['Content-Type', 'text/html'],
      ],
    ]),
  ],
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
