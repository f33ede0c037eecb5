import type { Draw, HeaderLines, Tricks } from './answer.ts';

const DAY_S = 86_400;
const MONTH_S = 31 * DAY_S;
const ABSURD = ['999999999999', '1e400', '9'.repeat(400), '253402300799', '99999999999999999'];
const NONSENSE = ['', '-5', 'soon', '1 minute', 'null', '0x10', '1,2,x', '\u00bd', '++1', 'Infinity', '1e3', '12:00'];

/** Headers that state a wait or a limit, in every grammar that somebody uses and in none. */
export const WAITS: Tricks<HeaderLines> = {
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
