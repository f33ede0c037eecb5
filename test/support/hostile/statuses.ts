import type { Draw, HeaderLines, Tricks } from './answer.ts';

/** A status line's rest, and headers that go with it. */
export interface StatusTrick {
  status: string;
  headers?: HeaderLines;
  /** Sent in front of the answer as they are. */
  before?: string;
  /** An answer that has none by its status, or that comes without one all the same. */
  isWithoutBody?: boolean;
}

const ODD = [
  '0',
  '99',
  '199',
  '299',
  '305',
  '306',
  '418',
  '499',
  '520',
  '599',
  '600',
  '799',
  '999',
  '1000',
  '20',
  'abc',
];
const CLIENT = [
  400, 400, 401, 402, 403, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 421,
];
const PASSING = [420, 423, 425, 429, 429, 429, 430, 500, 500, 502, 503, 503, 504, 505, 507, 508, 511];

/** Statuses that a service may answer with, whatever its body says. */
export const STATUSES: Tricks<StatusTrick> = {
  'status: informational first': ({ random }) => ({
    status: '200 OK',
    before: random.pick([
      'HTTP/1.1 100 Continue\r\n\r\n',
      'HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n'.repeat(random.pick([1, 3, 40])),
      'HTTP/1.1 102 Processing\r\n\r\n',
    ]),
  }),
  'status: informational last': ({ random }) => ({
    status: random.pick(['100 Continue', '101 Switching', '103 Hints']),
  }),
  'status: other success': ({ random }) => ({
    status: random.pick(['201 Created', '202 Accepted', '203 Other', '207 Multi', '226 IM Used']),
  }),
  'status: no content': ({ random }) => ({
    status: random.pick(['204 No Content', '205 Reset Content', '304 Not Modified']),
    isWithoutBody: random.chance(0.7),
  }),
  'status: partial content': ({ random }) => ({
    status: '206 Partial Content',
    headers: random.pick([[], [['Content-Range', 'bytes 0-10/200']], [['Content-Range', 'bytes x']]]),
  }),
  'status: redirect': (draw) => ({
    status: draw.random.pick(['300 Many', '301 Moved', '302 Found', '303 See', '307 Temporary', '308 Permanent']),
    headers: locations(draw),
  }),
  'status: refusal': ({ random, credential }) => ({
    status: `${random.pick(CLIENT)} No`,
    headers: random.pick([[], [['WWW-Authenticate', `Bearer realm="${credential}", error="invalid_token`]]]),
  }),
  'status: failure': ({ random }) => ({ status: `${random.pick(PASSING)} No` }),
  'status: limited by 403': ({ random }) => ({
    status: '403 No',
    headers: [[random.pick(['X-RateLimit-Remaining', 'RateLimit-Remaining']), '0']],
  }),
  'status: odd': ({ random }) => ({ status: `${random.pick(ODD)} Odd` }),
  'status: odd reason': ({ random, credential }) => ({
    status: `${random.pick([200, 400, 503])} ${random.pick(['', `key ${credential}`, 'x'.repeat(9_000), '\u0007\u00ff'])}`,
  }),
};

function locations(draw: Draw): HeaderLines {
  const { random, asked, origin, foreign, credential } = draw;
  const to = random.pick([
    asked.target,
    `${asked.target}&more=1`,
    `${origin}/v1/content`,
    `${foreign}/v1/content?key=${credential}`,
    `${origin.replace('//', `//user:${credential}@`)}/v1/content`,
    `//${foreign.replace('http://', '')}/`,
    'https://127.0.0.1:1/',
    'javascript:alert(1)',
    'file:///etc/passwd',
    'http://',
    'http://[::1',
    '',
    ' ',
    '/%0d%0aSet-Cookie:%20a=b',
    `/${'x'.repeat(9_000)}`,
    '../../../..',
    '\u00ff\u00fe',
    '?cursor=',
  ]);
  return random.pick([
    [['Location', to]],
    [['Location', to]],
    [],
    [
      ['Location', to],
      ['Location', '/v1/content'],
    ],
  ]);
}
