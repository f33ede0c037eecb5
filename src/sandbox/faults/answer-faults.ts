import { brotliCompressSync, gzipSync } from 'node:zlib';
import type { Answer } from '../answer.ts';
import { json, problem } from '../answer.ts';
import type { Fault } from './fault.ts';
import { TEXT_OR_BYTES, fault } from './fault.ts';

const HTML =
  '<!doctype html><html><head><title>Just a moment...</title></head><body>Checking your browser</body></html>';
const BOMB_MEMBER = 10_000_000;

/** Faults that give another answer, or another body under the same headers. */
export const ANSWER_FAULTS = {
  status: fault(
    'another status, with headers, a body and Retry-After as wanted',
    { status: 500, body: '', type: 'application/problem+json', 'retry-after': '', headers: {} },
    (_answer, { status, body, type, 'retry-after': retryAfter, headers }) => {
      const extra = { ...headers, ...(retryAfter === '' ? {} : { 'retry-after': retryAfter }) };
      const answer = problem(status, 'A fault that was asked for.', extra);
      return body === '' ? answer : { ...answer, body: Buffer.from(body), headers: { 'content-type': type, ...extra } };
    },
  ),
  header: fault('one more header', { name: 'x-fault', value: '', headers: {} }, (answer, { name, value, headers }) => ({
    ...answer,
    headers: { ...answer.headers, ...(value === '' ? {} : { [name]: value }), ...headers },
  })),
  body: fault(
    'these bytes as body',
    { text: TEXT_OR_BYTES, status: 200, type: 'application/json' },
    (_answer, { text, status, type }) => ({ status, headers: { 'content-type': type }, body: Buffer.from(text) }),
  ),
  'error-body': fault('200 with an error object', { code: 'internal_error' }, (_answer, { code }) =>
    json(200, { error: { code, message: 'A fault that was asked for.' } }),
  ),
  html: fault('200 with a challenge page', { type: 'text/html; charset=utf-8' }, (_answer, { type }) => ({
    status: 200,
    headers: { 'content-type': type },
    body: Buffer.from(HTML),
  })),
  'empty-body': fault('200 with no body', {}, () => json(200, Buffer.alloc(0))),
  'null-body': fault('200 with the body null', {}, () => json(200, null)),
  'malformed-json': fault('the last bytes of the body are missing, its length says so', { cut: 3 }, (answer, { cut }) =>
    withBody(answer, answer.body.subarray(0, Math.max(0, answer.body.length - cut))),
  ),
  encoding: fault('another encoding of the text: bom, utf-16le, utf-16be, latin1', { as: 'bom', charset: '' }, encoded),
  'truncated-gzip': fault(
    'a compressed body that ends early',
    { cut: 10, encoding: 'gzip' },
    (answer, { cut, encoding }) => {
      const whole = encoding === 'br' ? brotliCompressSync(answer.body) : gzipSync(answer.body);
      return withBody(answer, whole.subarray(0, Math.max(0, whole.length - cut)), { 'content-encoding': encoding });
    },
  ),
  'fake-gzip': fault('says gzip, sends it plain', {}, (answer) =>
    withBody(answer, answer.body, { 'content-encoding': 'gzip' }),
  ),
  'gzip-unlabelled': fault('sends gzip, does not say so', {}, (answer) => withBody(answer, gzipSync(answer.body))),
  'gzip-bomb': fault('a small body that unpacks to `bytes`', { bytes: 300_000_000 }, (answer, { bytes }) => {
    const member = gzipSync(Buffer.alloc(BOMB_MEMBER, ' '));
    const members = Array.from({ length: Math.ceil(bytes / BOMB_MEMBER) }, () => member);
    return withBody(answer, Buffer.concat([...members, gzipSync(answer.body)]), { 'content-encoding': 'gzip' });
  }),
  'huge-headers': fault(
    'one header of `bytes`, or `lines` small ones',
    { bytes: 32_768, lines: 0 },
    (answer, { bytes, lines }) => {
      const many = Array.from({ length: lines }, (_, index) => [`x-filler-${index}`, 'x'.repeat(8)]);
      const filler = lines > 0 ? Object.fromEntries(many) : { 'x-filler': 'x'.repeat(bytes) };
      return { ...answer, headers: { ...answer.headers, ...filler } };
    },
  ),
  redirect: fault(
    'a redirect to an address, to itself (`self`), or through `hops` addresses to the right answer',
    { to: 'self', status: 302, hops: 0, headers: {} },
    (answer, { to, status, hops, headers }, { url }) => {
      const hop = Number(url.searchParams.get('_hop') ?? '0');
      if (hops > 0 && hop >= hops) return answer;
      const next = new URL(url);
      if (hops > 0) next.searchParams.set('_hop', String(hop + 1));
      const location = to === 'self' ? next.href : to;
      return { status, headers: { location, ...headers }, body: Buffer.alloc(0) };
    },
  ),
  latency: fault('an answer that comes late', { ms: 1_000 }, (answer, { ms }) => ({
    ...answer,
    delayMs: (answer.delayMs ?? 0) + ms,
  })),
} satisfies Record<string, Fault>;

function withBody(answer: Answer, body: Uint8Array, headers: Record<string, string> = {}): Answer {
  return { ...answer, body, headers: { ...answer.headers, ...headers } };
}

const ENCODERS: Readonly<Record<string, (text: Uint8Array) => Uint8Array>> = {
  bom: (text) => Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), text]),
  'utf-16le': (text) => Buffer.from(Buffer.from(text).toString(), 'utf16le'),
  'utf-16be': (text) => Buffer.from(Buffer.from(text).toString(), 'utf16le').swap16(),
  latin1: (text) => Buffer.from(Buffer.from(text).toString(), 'latin1'),
};

function encoded(answer: Answer, { as, charset }: { as: string; charset: string }): Answer {
  const body = ENCODERS[as]?.(answer.body) ?? answer.body;
  return withBody(answer, body, charset === '' ? {} : { 'content-type': `application/json; charset=${charset}` });
}
