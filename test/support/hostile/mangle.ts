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
  withoutHeader,
} from './transports.ts';
import { BODIES } from './hostile-bodies.ts';
import { HEADERS, oddUrl } from './hostile-headers.ts';

/** How often an answer is right as a whole, so that a walk gets somewhere; and how often each part of it is not. */
const OFTEN = { right: 0.3, status: 0.25, body: 0.5, header: 0.4, wire: 0.15 } as const;

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
  if (right !== null && sometimes('body')) {
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

const ODD = '0 20 99 199 299 305 306 499 599 600 799 999 1000 abc'.split(' ');
/** Those that mean something to a client come more often. */
const REFUSALS = [400, 401, 403, 404, 408, 409, 410, 425, 429, 429, 429, 500, 502, 503, 503, 504];

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
    status: `${random.chance(0.6) ? random.pick(REFUSALS) : random.whole(400, 531)} No`,
    headers: random.pick([[], [['WWW-Authenticate', `Bearer realm="${credential}", error="invalid_token`]]]),
  }),
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
  const { random, origin, foreign, credential } = draw;
  const odd = [
    [oddUrl(draw), oddUrl(draw), oddUrl(draw), `${foreign}/v1/content?key=${credential}`],
    [`${origin.replace('//', `//user:${credential}@`)}/v1/content`, 'https://127.0.0.1:1/', 'file:///etc/passwd'],
    ['', ' ', '/%0d%0aSet-Cookie:%20a=b', `/${'x'.repeat(9_000)}`, '../../../..', '\u00ff\u00fe'],
  ];
  const to = random.pick(odd.flat());
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

/** Gives a token that nobody had before, of which it must never be read anywhere. */
type Issue = () => string;

/** What a healthy token endpoint answers. */
export function tokenAnswer(issue: Issue, now: number): Answer {
  return jsonAnswer('200 OK', { access_token: issue(), token_type: 'Bearer', expires_in: 3_600 }, now);
}
