import { brotliCompressSync, gzipSync } from 'node:zlib';
import type { JsonObject } from '../../../../src/model/json.ts';
import { isObject, parseExactly } from '../../../../src/sandbox/records/record-json.ts';
import { type Answer, json, problem } from '../answer.ts';
import { cursorAtStart, type PageParts, type PageQuery } from '../pages/listing-page.ts';

/** A parameter of a fault; on the command line only text and numbers. */
export type FaultValue = string | number | Uint8Array | Readonly<Record<string, string>>;

/** The context that a fault gets besides the answer that it changes. */
export interface FaultContext {
  url: URL;
  /** Lists another page of the same resource. */
  list: (query: PageQuery) => PageParts;
  /** Turns parts into an answer in the sandbox's pagination style. */
  render(parts: PageParts): Answer;
  /** Kept from one firing to the next. */
  memory: Map<string, string>;
}

/** One kind of fault: what it does to an answer. Its parameters are those that have a default here. */
export interface Fault {
  about: string;
  defaults: Readonly<Record<string, FaultValue>>;
  apply(answer: Answer, parameters: Readonly<Record<string, FaultValue>>, context: FaultContext): Answer;
}

/** The default of a parameter that takes text or bytes. */
export const TEXT_OR_BYTES: string | Uint8Array = '';

/** Declares a fault; the function sees its parameters with the types of their defaults. */
export function fault<P extends Record<string, FaultValue>>(
  about: string,
  defaults: P,
  apply: (answer: Answer, parameters: Widened<P>, context: FaultContext) => Answer,
): Fault {
  return {
    about,
    defaults,
    apply: (answer, parameters, context) => apply(answer, merged(defaults, parameters), context),
  };
}

function merged<P>(defaults: P, parameters: object): Widened<P> {
  return Object.assign(Object.create(null), defaults, parameters);
}

type Widened<P> = { [K in keyof P]: P[K] extends number ? number : P[K] extends string ? string : P[K] };

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
  'malformed-json': fault('the last bytes of the body are missing, its length says so', { cut: 3 }, (answer, { cut }) =>
    withBody(answer, answer.body.subarray(0, Math.max(0, answer.body.length - cut))),
  ),
  encoding: fault('a byte order mark before the text', { as: 'bom', charset: '' }, encoded),
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

function encoded(answer: Answer, { charset }: { charset: string }): Answer {
  const body = Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), answer.body]);
  return withBody(answer, body, charset === '' ? {} : { 'content-type': `application/json; charset=${charset}` });
}

/** Faults of a listing: pages that lie. They leave every other answer alone. */
export const PAGE_FAULTS = {
  'repeated-cursor': onPage('the next cursor is the one that was asked with', {}, (page) => ({
    ...page,
    next: page.query.cursor ?? page.next,
  })),
  'cursor-cycle': onPage(
    'after `length` pages the first next cursor comes again',
    { length: 3 },
    (page, { length }, { memory }) => {
      if (page.query.number === 1 && page.next !== null) memory.set('first', page.next);
      return page.query.number > length ? { ...page, next: memory.get('first') ?? page.next } : page;
    },
  ),
  'same-page': onPage('every page holds what the first one holds', {}, (page, _none, { list }) => ({
    ...page,
    records: list({ ...page.query, start: { offset: 0 } }).records,
  })),
  'empty-page': onPage('a page without records though others follow; with cursors none is lost', {}, (page) => ({
    ...page,
    records: [],
    next: cursorAtStart(page.query),
  })),
  'missing-records': onPage('the last `count` records of the page are left out', { count: 1 }, (page, { count }) => ({
    ...page,
    records: page.records.slice(0, Math.max(0, page.records.length - count)),
  })),
  'short-page': onPage(
    '`count` records fewer than asked for; with cursors none is lost',
    { count: 1 },
    (page, { count }, { list }) => list({ ...page.query, limit: Math.max(1, page.query.limit - count) }),
  ),
  'oversize-page': onPage('`factor` times as many records as asked for', { factor: 10 }, (page, { factor }, { list }) =>
    list({ ...page.query, limit: page.query.limit * factor }),
  ),
  'duplicate-ids': onPage('the first `count` records again at the end, changed', { count: 1 }, (page, { count }) => ({
    ...page,
    records: [...page.records, ...page.records.slice(0, count).map(changedCopy)],
  })),
  'wrong-total': onPage('another total, as JSON text', { total: '0' }, (page, { total }) =>
    withFields(page, { total }),
  ),
  'wrong-count': onPage('says `more` records than the page holds', { more: 5 }, (page, { more }) => {
    const count = page.records.length + more;
    const range = { 'content-range': `items 0-${count - 1}/${page.total ?? '*'}` };
    return { ...withFields(page, { count: String(count) }), headers: { ...page.headers, ...range } };
  }),
  field: onPage(
    'a field of the page as JSON text (`data`, `next_cursor`, `has_more`, ...); `absent` takes it away',
    { name: 'data', value: 'null' },
    (page, { name, value }) => withFields(page, { [name]: value === 'absent' ? null : value }),
  ),
  'foreign-next': onPage(
    'the next link leads to `to`; {path} stands for the right path and query',
    { to: 'http://other.invalid{path}' },
    (page, { to }) => ({ ...page, nextAddress: (path) => to.replace('{path}', path) }),
  ),
  'link-header': fault(
    'a Link header as given; {url} stands for the right next address, two headers are parted by a line feed',
    { value: '<{url}>; rel="next"' },
    (answer, { value }) => {
      const url = /<([^>]*)>/.exec(String(answer.headers['link'] ?? ''))?.[1];
      const lines = value.replaceAll('{url}', url ?? '').split('\n');
      return url === undefined ? answer : { ...answer, headers: { ...answer.headers, link: lines } };
    },
  ),
} satisfies Record<string, Fault>;

function onPage<P extends Record<string, string | number>>(
  about: string,
  defaults: P,
  change: (
    page: PageParts,
    parameters: Parameters<Parameters<typeof fault<P>>[2]>[1],
    context: FaultContext,
  ) => PageParts,
): Fault {
  return fault(about, defaults, (answer: Answer, parameters, context) => {
    const page = answer.page?.();
    if (page === undefined) return answer;
    const rendered = context.render(change(page, parameters, context));
    return { ...rendered, headers: { ...answer.headers, ...rendered.headers }, delayMs: answer.delayMs ?? 0 };
  });
}

function withFields(page: PageParts, fields: Record<string, string | null>): PageParts {
  return { ...page, fields: { ...page.fields, ...fields } };
}

/** The same id with another content, as a service answers that changes a record while it lists. */
function changedCopy(text: Uint8Array): Uint8Array {
  const record = parseExactly(new TextDecoder().decode(text));
  const copy: JsonObject = isObject(record) ? { ...record, title: 'A second copy' } : {};
  return Buffer.from(JSON.stringify(copy));
}
