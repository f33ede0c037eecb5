import { describe, expect, it } from 'vitest';
import {
  firstPosition,
  requestAt,
  type RequestParts,
  singleRequest,
} from '../../../src/pagination/page-styles/listing-request.ts';
import {
  loadPosition,
  type PagePosition,
  storePosition,
  withPlaces,
} from '../../../src/pagination/page-styles/page-position.ts';

const TARGET = { baseUrl: new URL('https://cms.example.com/api/'), prefix: '/v1' };

function parts(templates: Partial<RequestParts['templates']>, values: RequestParts['values'] = {}): RequestParts {
  return { target: TARGET, templates: { path: '/posts', query: {}, ...templates }, values };
}

/** The position as a checkpoint has it. */
function stored(position: PagePosition): PagePosition {
  return loadPosition(storePosition(position, {}, (text) => text) ?? '', {}, {});
}

function sent(of: RequestParts, position: PagePosition) {
  const { url: address, headers = {}, body, method } = requestAt(of, position);
  return { method, at: address.href.replace('https://cms.example.com/api/v1', ''), headers, body };
}

describe('a request of a listing', () => {
  it('has path, query, headers and body from templates', () => {
    const of = parts(
      {
        path: '/sites/{partition}/posts',
        method: 'POST',
        query: { lang: 'en', from: "at:>'{since}'" },
        headers: { 'X-Site': 'site {partition}' },
        body: { sort: ['at'], filter: { from: '{since}', and: { to: '{until}' } }, limit: 5 },
      },
      { partition: 'a/b', since: '2026', until: null },
    );
    expect(sent(of, firstPosition(of))).toEqual({
      method: 'POST',
      at: '/sites/a%2Fb/posts?lang=en&from=at%3A%3E%272026%27',
      headers: { 'x-site': 'site a/b' },
      body: '{"sort":["at"],"filter":{"from":"2026"},"limit":5}',
    });
  });

  it('needs a value for a variable in its path', () => {
    expect(() => firstPosition(parts({ path: '/posts/{cursor}' }))).toThrow(/without a value/);
  });

  it('takes the values of a page where the profile has their places', () => {
    const of = parts({ method: 'POST', body: { page: { size: 1, sort: 'at' } } });
    const first = firstPosition(of, { limit: 5, 'body:page.size': 5, 'header:X-Page': 1 });
    const second = stored(withPlaces(first, { 'header:X-Page': 2, 'body:page.after': '\u00e9"}\n' }));
    expect(sent(of, second)).toEqual({
      method: 'POST',
      at: '/posts?limit=5',
      headers: { 'x-page': '2' },
      body: '{"page":{"size":5,"sort":"at","after":"\u00e9\\"}\\n"}}',
    });
  });

  it('keeps a number of the service by its digits', () => {
    const of = parts({ method: 'POST' });
    const position = withPlaces(firstPosition(of), { 'body:after': JSON.rawJSON('90071992547409931') });
    expect(sent(of, stored(position)).body).toBe('{"after":90071992547409931}');
  });

  it('fills a cursor into the templates that have it, page by page', () => {
    const of = parts({
      path: '/after/{cursor}',
      query: { q: 'id:>{cursor}', other: 'x' },
      headers: { 'X-C': '{cursor}' },
    });
    const first = firstPosition(of, { '{cursor}': '*' });
    const next = withPlaces(first, { '{cursor}': 'a/b&c' });
    expect(sent(of, first).at).toBe('/after/*?q=id%3A%3E*&other=x');
    expect(sent(of, stored(next))).toMatchObject({
      at: '/after/a%2Fb%26c?q=id%3A%3Ea%2Fb%26c&other=x',
      headers: { 'x-c': 'a/b&c' },
    });
  });

  it('refuses a value that is no header', () => {
    expect(() => firstPosition(parts({}), { 'header:X-From': 'a\r\nb' })).toThrow(/cannot stand there/);
    expect(() => singleRequest(parts({ headers: { 'X-From': '{since}' } }, { since: '\u2603' }))).toThrow(/header/);
  });
});
