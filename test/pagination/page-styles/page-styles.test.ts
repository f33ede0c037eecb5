import { describe, expect, it } from 'vitest';
import { type AnsweredPage, openPageStyle } from '../../../src/pagination/page-styles/page-styles.ts';
import { parseJson } from '../../../src/rows/json/parse-json.ts';
import { pageProfile } from '../five-styles.ts';
import type { ApiAnswer } from '../../../src/http/client.ts';
import type { PageProfile } from '../../../src/config/profile/page-style.ts';

const BASE = new URL('https://cms.example.com/v1/content');

/** A page of so many records, what is known of the scan, and the request's query. */
interface Facts extends Partial<AnsweredPage> {
  query?: string;
  received?: number;
  headers?: ApiAnswer['headers'];
}

const ANSWER = {
  outcome: 'ok' as const,
  code: 'ok',
  status: 200,
  bytes: Buffer.alloc(0),
  requestedAt: 0,
  serverDate: null,
};
const AGE = { ageMs: 0, lifetimeMs: null, isStated: false };
const NO_SIGNALS = { totals: [], pages: [], more: null };

/** What follows the answer `body` to a request with `query`: a query, what shows the end (null: nothing), or a fault's code. */
function nextOf(
  style: PageProfile['style'],
  profile: object,
  body: string,
  { query = '', received = 2, headers = {}, ...others }: Facts = {},
): unknown {
  const url = new URL(query, BASE);
  const answer = { ...ANSWER, age: AGE, url, headers, json: parseJson(body) };
  const records = Array.from({ length: received }, () => ({ value: {}, bytes: Buffer.alloc(0) }));
  const request = { url: url.pathname + url.search };
  const place = { request, isFirst: false, answer, baseUrl: BASE, records, keys: Buffer.alloc(0), signals: NO_SIGNALS };
  const counts = { isEmpty: received === 0, seen: 2, total: null, pages: null, fullPageSize: 0 };
  const step = openPageStyle(pageProfile(style, 2, { ...profile })).next({ ...place, ...counts, ...others });
  if ('next' in step) return step.next.url.replace(/^[^?#]*/, '');
  return 'code' in step ? step.code : step.end;
}

/** What follows page 2 that names this number as the next. */
const behindTwo = (next: unknown, facts: Facts = {}): unknown =>
  nextOf('page', { next_page: 'meta.next' }, JSON.stringify({ meta: { next } }), { query: '?page=2', ...facts });

describe('page style with the number of the next page', () => {
  it.each<[string, unknown, Facts, unknown]>([
    ['a number', 3, {}, '?page=3'],
    ['a number as text, behind a gap', '5', {}, '?page=5'],
    ['null: the end', null, {}, 'signal'],
    ['false: the end', false, {}, 'signal'],
    ['none, where an earlier page had one: the end', undefined, { fullPageSize: 2 }, 'signal'],
    ['none, nor had any page before it', undefined, {}, null],
    ['a number that counts on past the end', 3, { received: 0 }, 'empty'],
    ['the number of this page', 2, {}, 'pagination_invalid'],
    ['a URL', '/posts?page=3', {}, 'pagination_invalid'],
  ])('%s', (_, next, facts, expected) => {
    expect(behindTwo(next, facts)).toBe(expected);
  });
});

describe('cursor style', () => {
  it.each([
    ['a text', '{"next_cursor":"abc"}', '?cursor=abc'],
    [
      'odd characters, which are encoded',
      '{"next_cursor":"a+b/c=&d é%2F#"}',
      '?cursor=a%2Bb%2Fc%3D%26d%20%C3%A9%252F%23',
    ],
    ['a number', '{"next_cursor":17}', '?cursor=17'],
    ['an integer beyond 2^53, digit by digit', '{"next_cursor":90071992547409931}', '?cursor=90071992547409931'],
    ['an object', '{"next_cursor":{}}', 'pagination_invalid'],
    ['a boolean', '{"next_cursor":true}', 'pagination_invalid'],
    ['F210 CR LF in the token', '{"next_cursor":"a\\r\\nX-Evil: 1"}', 'pagination_invalid'],
    ['F210 NUL in the token', '{"next_cursor":"a\\u0000"}', 'pagination_invalid'],
    ['half a character', '{"next_cursor":"\\ud800"}', 'pagination_invalid'],
    ['no key: nothing shows the end', '{"data":[]}', null],
  ])('with %s', (_, body, expected) => {
    expect(nextOf('cursor', {}, body)).toBe(expected);
  });

  it('keeps the other parameters and replaces the cursor, so that none is sent twice (C35)', () => {
    const next = nextOf('cursor', {}, '{"next_cursor":"b"}', { query: '?updated_since=2024-01-01T00%3A00Z&cursor=a' });
    expect(next).toBe('?updated_since=2024-01-01T00%3A00Z&cursor=b');
  });

  it.each([
    ['true', 'true', '?cursor=c'],
    ['the text true', '"true"', '?cursor=c'],
    ['1', '1', '?cursor=c'],
    ['the text 1', '"1"', '?cursor=c'],
    ['false', 'false', 'signal'],
    ['the text false', '"false"', 'signal'],
    ['0', '0', 'signal'],
    ['the text 0', '"0"', 'signal'],
    ['null: the cursor decides', 'null', '?cursor=c'],
    ['a word', '"maybe"', 'pagination_invalid'],
    ['an object', '{}', 'pagination_invalid'],
    ['2', '2', 'pagination_invalid'],
  ])('F051 C35 has_more as %s', (_, flag, expected) => {
    expect(nextOf('cursor', { has_more: 'meta.more' }, `{"meta":{"more":${flag}},"next_cursor":"c"}`)).toBe(expected);
  });

  it.each([
    ['missing beside a cursor', '{"next_cursor":"c"}', '?cursor=c'],
    ['missing beside the end', '{"next_cursor":null}', 'signal'],
    ['true with no cursor', '{"more":true,"next_cursor":null}', 'pagination_invalid'],
    ['true with an empty cursor', '{"more":true,"next_cursor":""}', 'pagination_invalid'],
    ['false with no cursor key on a full page', '{"more":false}', 'signal'],
  ])('F051 has_more %s', (_, body, expected) => {
    expect(nextOf('cursor', { has_more: 'more' }, body)).toBe(expected);
  });
});

describe('page and offset style', () => {
  it.each<[string, Facts, string | null]>([
    ['a full page, no total', { received: 2 }, '?page=4'],
    ['F052 a short page, no total: services cut pages silently', { received: 1 }, '?page=4'],
    ['an empty page, no total: the end', { received: 0 }, 'empty'],
    ['a short page that completes the total: the end', { received: 1, seen: 5, total: 5 }, 'total'],
    ['the page that is the last of those told: the end', { received: 2, pages: 3 }, 'pages'],
    ['a page before the last of those told', { received: 2, pages: 4 }, '?page=4'],
    ['a short page before the total', { received: 1, seen: 4, total: 5 }, '?page=4'],
    ['F053 a full page at the total goes on', { received: 2, seen: 6, total: 6 }, '?page=4'],
    ['F053 a full page past the total goes on', { received: 2, seen: 6, total: 1 }, '?page=4'],
    ['F053 a short page past the total goes on: the total is wrong', { received: 1, seen: 6, total: 0 }, '?page=4'],
    ['an empty page before the total goes on', { received: 0, seen: 6, total: 9 }, '?page=4'],
    ['a short page after a resume goes on: nobody counted', { received: 1, seen: null, total: 5 }, '?page=4'],
  ])('page: %s', (_, facts, expected) => {
    expect(nextOf('page', {}, '{}', { query: '?page=3', ...facts })).toBe(expected);
  });

  it.each<[string, Facts, string | null]>([
    ['a full page', { received: 2 }, '?offset=6'],
    ['a page cut by the service advances by what came', { received: 1 }, '?offset=5'],
    ['F056 a page larger than asked for advances by what came', { received: 20 }, '?offset=24'],
    ['an empty page: the end', { received: 0 }, 'empty'],
    ['a page with nothing but what the one before it had: the end', { received: 1, isEmpty: true }, 'empty'],
    ['a short page that completes the total: the end', { received: 1, total: 5 }, 'total'],
    ['an empty page before the total', { received: 0, total: 9 }, 'guard_loop'],
  ])('offset: %s', (_, facts, expected) => {
    expect(nextOf('offset', {}, '{}', { query: '?offset=4', ...facts })).toBe(expected);
  });

  it('refuses a stored position of another page style', () => {
    const refusal = { code: 'warehouse_corrupt', hint: expect.stringContaining('start this resource again') };
    expect(() => nextOf('page', {}, '{}', { query: '?cursor=abc' })).toThrow(expect.objectContaining(refusal));
  });
});

describe('next-url and link style', () => {
  it.each([
    ['a path', '{"next":"/v1/content?cursor=9"}', '?cursor=9'],
    ['null: the end', '{"next":null}', 'signal'],
    ['the empty string: the end', '{"next":""}', 'signal'],
    ['a number', '{"next":2}', 'pagination_invalid'],
    ['no key: nothing shows the end', '{}', null],
  ])('next-url with %s', (_, body, expected) => {
    expect(nextOf('next-url', {}, body)).toBe(expected);
  });

  it('finds the URL at a deep place of the body, and its absence there', () => {
    const profile = { next_url: '_links.next.href', absent_is_end: true };
    expect(nextOf('next-url', profile, '{"_links":{"next":{"href":"?p=2"}}}')).toBe('?p=2');
    expect(nextOf('next-url', profile, '{"_links":{}}')).toBeNull();
    expect(nextOf('next-url', profile, '{"_links":{}}', { fullPageSize: 2 })).toBe('signal');
  });

  it.each<[string, string | undefined, unknown]>([
    ['no header: nothing shows the end', undefined, null],
    ['a header about pages that names no next one: the end', '<?p=1>; rel=prev', 'signal'],
    ['a header about other things: nothing shows the end', '</a.css>; rel=preload', null],
    ['a next link', '<?p=2>; rel=next', '?p=2'],
    ['a header that is cut off', '<?p=2>; rel="next', 'pagination_invalid'],
    ['two different next links', '<?p=2>; rel=next, <?p=3>; rel=next', 'pagination_invalid'],
    ['the same next link twice', '<?p=2>; rel=next, <?p=2>; rel=next', '?p=2'],
  ])('link with %s', (_, link, expected) => {
    expect(nextOf('link', {}, '{}', { headers: link === undefined ? {} : { link } })).toBe(expected);
  });
});
