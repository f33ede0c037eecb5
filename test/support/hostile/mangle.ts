import { type Random, randomFrom } from '../random.ts';
import {
  type Answer,
  type Draw,
  type HeaderLines,
  jsonAnswer,
  type Parts,
  TRANSPORTS,
  type Tricks,
  whole,
  type Wire,
  withHeader,
  withoutHeader,
} from './transports.ts';
import { BODIES } from './hostile-bodies.ts';
import { HEADERS } from './hostile-headers.ts';
import { brotliCompressSync, constants, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';

/** How often an answer is right as a whole, so that a walk gets somewhere; and how often each part of it is not. */
const OFTEN = { right: 0.3, token: 0.4, status: 0.25, body: 0.5, codec: 0.25, header: 0.4, wire: 0.15 } as const;

/** What is sent in place of the right answer (null for a token), and the names of what was done to it. */
export function mangled(
  draw: Draw,
  right: Answer | null,
  issue: () => string,
): { wire: Wire; names: readonly string[] } {
  const { random } = draw;
  const names: string[] = [];
  const named = <T>(tricks: Tricks<T>): T | null => played(draw, tricks, names);
  const isRight = random.chance(OFTEN.right);
  const sometimes = (part: keyof typeof OFTEN): boolean => random.chance(OFTEN[part]) && !isRight;
  let answer = right ?? tokenAnswer(issue, draw.now);
  if (right === null) answer = (sometimes('token') ? named(TOKEN_TRICKS) : null)?.(issue) ?? answer;
  else if (sometimes('body')) {
    const text = answer.body.toString();
    answer = { ...answer, body: Buffer.from(named(BODIES)?.(text) ?? text) };
  }
  const status = sometimes('status') ? named(STATUSES) : null;
  if (status !== null) {
    const { headers = [], isWithoutBody = false } = status;
    answer = {
      status: status.status,
      headers: [...answer.headers, ...headers],
      body: isWithoutBody ? Buffer.alloc(0) : answer.body,
    };
  }
  const coded = sometimes('codec') ? named(CODECS)?.(answer.body) : undefined;
  if (coded !== undefined) {
    answer = { ...answer, body: coded.bytes };
    if (coded.encoding !== null) answer = withHeader(answer, 'Content-Encoding', coded.encoding);
  }
  for (let most = random.whole(1, 3); most > 0; most -= 1) {
    answer = { ...answer, headers: withLines(answer.headers, (sometimes('header') ? named(HEADERS) : null) ?? []) };
  }
  const parts = onTheWire(answer, status?.before);
  const wire = (sometimes('wire') ? named(TRANSPORTS) : null)?.(parts) ?? whole(parts);
  return { wire, names };
}

/** A trick of its kind, drawn and named; null where there is none. */
function played<T>(draw: Draw, tricks: Tricks<T>, names: string[]): T | null {
  const name = draw.random.pick(Object.keys(tricks));
  const trick = tricks[name];
  if (trick === undefined) return null;
  names.push(name);
  // What comes after does not change with what one trick draws.
  return trick({ ...draw, random: fork(draw.random) });
}

function fork(random: Random): Random {
  return randomFrom(random.whole(0, 2 ** 31 - 1));
}

/** Lines are added; `-Name` takes out what was there before. */
function withLines(headers: HeaderLines, lines: HeaderLines): HeaderLines {
  const gone = lines.filter(([name]) => name.startsWith('-')).map(([name]) => name.slice(1));
  const left = gone.reduce<HeaderLines>((rest, name) => withoutHeader(rest, name), headers);
  const marks = gone.map((name) => [`-${name}`, ''] as const);
  return [...left, ...marks, ...lines.filter(([name]) => !name.startsWith('-'))];
}

/** The bytes of an answer; a length is told unless something else tells one, or none is to be told. */
export function onTheWire({ status, headers, body }: Answer, before = ''): Parts {
  const isTold = headers.some(([name]) => /^(-?content-length|transfer-encoding)$/i.test(name));
  const lines = headers.filter(([name]) => !name.startsWith('-')).map(([name, value]) => `${name}: ${value}\r\n`);
  if (!isTold) lines.push(`Content-Length: ${body.length}\r\n`);
  return { head: Buffer.from(`${before}HTTP/1.1 ${status}\r\n${lines.join('')}\r\n`, 'latin1'), body };
}

/** A status line's rest, and headers that go with it. */
interface StatusTrick {
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
const STATUSES: Tricks<StatusTrick> = {
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

/** A body as it goes over the wire, and what is said of it: null where nothing is. */
interface Coded {
  bytes: Buffer;
  encoding: string | null;
}

const FAST_BROTLI = { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } };
const CODERS = {
  gzip: (body: Buffer) => gzipSync(body, { level: 1 }),
  deflate: (body: Buffer) => deflateSync(body, { level: 1 }),
  br: (body: Buffer) => brotliCompressSync(body, FAST_BROTLI),
  zstd: (body: Buffer) => zstdCompressSync(body),
} as const;
const NAMES = ['gzip', 'deflate', 'br', 'zstd'] as const;

const BOMB = 24 * 2 ** 20;
const bombs = new Map<string, Buffer>();

/** Content codings: those that are right, and those that lie. */
const CODECS: Tricks<(body: Buffer) => Coded> = {
  'codec: one': ({ random }) => {
    const name = random.pick(NAMES);
    return (body) => ({ bytes: CODERS[name](body), encoding: random.pick([name, name.toUpperCase(), ` ${name} `]) });
  },
  'codec: raw deflate': () => (body) => ({ bytes: deflateRawSync(body), encoding: 'deflate' }),
  'codec: nested': ({ random }) => {
    const names = Array.from({ length: random.pick([2, 2, 3, 5]) }, () => random.pick(NAMES));
    return (body) => ({ bytes: names.reduce((bytes, name) => CODERS[name](bytes), body), encoding: names.join(', ') });
  },
  'codec: not so': ({ random }) => {
    const encoding = random.pick([
      ...NAMES,
      'identity',
      'compress',
      'aws-chunked',
      'x-gzip, x-gzip',
      ',,gzip,',
      '\\',
      'x'.repeat(5_000),
    ]);
    return (body) => ({ bytes: body, encoding });
  },
  'codec: not told':
    ({ random }) =>
    (body) => ({ bytes: CODERS[random.pick(NAMES)](body), encoding: null }),
  'codec: cut off': ({ random }) => {
    const name = random.pick(NAMES);
    return (body) => {
      const bytes = CODERS[name](body);
      return { bytes: bytes.subarray(0, Math.floor(bytes.length * random.next())), encoding: name };
    };
  },
  'codec: something behind it': ({ random }) => {
    const name = random.pick(NAMES);
    return (body) => ({ bytes: Buffer.concat([CODERS[name](body), Buffer.from('{"more":1}')]), encoding: name });
  },
  'codec: many members': () => (body) => {
    const empty = gzipSync(Buffer.alloc(0));
    return { bytes: Buffer.concat([...Array.from({ length: 3_000 }, () => empty), gzipSync(body)]), encoding: 'gzip' };
  },
  'codec: bomb': ({ random }) => {
    const name = random.pick(NAMES);
    const isNested = random.chance(0.3);
    return () => {
      const bytes = bomb(name);
      return isNested ? { bytes: CODERS.gzip(bytes), encoding: `${name}, gzip` } : { bytes, encoding: name };
    };
  },
};

/** Spaces around an empty listing: JSON to its last byte. Made once, for it takes a while. */
function bomb(name: (typeof NAMES)[number]): Buffer {
  const known = bombs.get(name);
  if (known !== undefined) return known;
  const made = CODERS[name](Buffer.alloc(BOMB, ' ').fill('{"data":[],"total":0}', 0, 21));
  bombs.set(name, made);
  return made;
}

/** Gives a token that nobody had before, of which it must never be read anywhere. */
type Issue = () => string;

/** What a healthy token endpoint answers. */
export function tokenAnswer(issue: Issue, now: number): Answer {
  return jsonAnswer('200 OK', { access_token: issue(), token_type: 'Bearer', expires_in: 3_600 }, now);
}

/** JSON texts. */
const LIVES = [
  '0',
  '-1',
  '1',
  '0.001',
  '1e308',
  '1e400',
  '"3600"',
  '"soon"',
  'null',
  '{}',
  '[]',
  'true',
  '9007199254740993',
];
const TOKENS = [
  '""',
  'null',
  '12345678',
  'true',
  '{}',
  '[]',
  '" "',
  '"a b"',
  '"line\\r\\nX-More: 1"',
  '"\\u0000"',
  '"\\ud800"',
];

/** A token endpoint that cannot be trusted; each text is the body of its answer. */
const TOKEN_TRICKS: Tricks<(issue: Issue) => Answer> = {
  'token: expires': (draw) => (issue) =>
    body(draw, `{"access_token":"${issue()}","token_type":"bearer","expires_in":${draw.random.pick(LIVES)}}`),
  'token: no token': (draw) => () =>
    body(draw, `{"access_token":${draw.random.pick(TOKENS)},"token_type":"Bearer","expires_in":60}`),
  'token: long': (draw) => (issue) =>
    body(draw, `{"access_token":"${issue()}${'x'.repeat(draw.random.pick([3_000, 14_000]))}","token_type":"Bearer"}`),
  'token: very long': (draw) => (issue) =>
    body(draw, `{"access_token":"${issue()}${'x'.repeat(200_000)}","token_type":"Bearer"}`),
  'token: another type': (draw) => (issue) =>
    body(
      draw,
      `{"access_token":"${issue()}"${draw.random.pick(['', ',"token_type":"mac"', ',"token_type":7', ',"token_type":"DPoP"'])}}`,
    ),
  'token: backslashes': (draw) => (issue) =>
    body(
      draw,
      JSON.stringify({ access_token: `${issue()}${'\\'.repeat(draw.random.pick([8, 40]))}/x`, token_type: 'Bearer' }),
    ),
  'token: beyond the alphabet': (draw) => (issue) =>
    body(
      draw,
      JSON.stringify({
        access_token: `${issue()}${draw.random.pick(['"', "'", '<&>', '(.*)+$', '%00', ';,'])}`,
        token_type: 'Bearer',
      }),
    ),
  'token: refused': (draw) => () => ({
    ...body(draw, `{"error":"invalid_client","error_description":"${draw.asked.body.replaceAll(/["\\]/g, '')}"}`),
    status: draw.random.pick(['400 Bad', '401 No', '403 No', '404 No']),
    headers: [
      ['Content-Type', 'application/json'],
      ['WWW-Authenticate', draw.random.pick(['Basic', 'Bearer realm="\\"', ',,,', 'x'.repeat(4_000), ' = ='])],
    ],
  }),
  'token: failing': (draw) => () => ({
    ...body(draw, '{}'),
    status: draw.random.pick(['500 No', '503 No', '429 No', '302 Found']),
  }),
  'token: no JSON': (draw) => (issue) =>
    body(
      draw,
      draw.random.pick(['', 'null', '[]', '<html>', `access_token=${issue()}`, '['.repeat(50_000), '{"access_token":']),
    ),
};

function body({ now }: Draw, text: string): Answer {
  return jsonAnswer('200 OK', text, now);
}
