import { randomFrom, type Random } from '../random.ts';
import { withHeader, withoutHeader, type Answer, type Draw, type HeaderLines, type Tricks } from './answer.ts';
import { CODECS } from './codecs.ts';
import { BODIES } from './hostile-bodies.ts';
import { HEADERS } from './hostile-headers.ts';
import { STATUSES } from './statuses.ts';
import { TOKEN_TRICKS, tokenAnswer } from './tokens.ts';
import { TRANSPORTS, whole, type Parts, type Wire } from './transports.ts';

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
