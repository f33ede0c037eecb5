import { describe, expect, it } from 'vitest';
import { undeclaredSignals } from '../../../src/pagination/requests/listing-signals.ts';
import { parseJson } from '../../../src/rows/json/parse-json.ts';
import { pageProfile } from '../five-styles.ts';

interface Asked {
  page?: ReturnType<typeof pageProfile>;
  query?: string;
  records?: string;
  headers?: Record<string, string>;
}

const show = ({ path, count }: { path: string; count: number }): string => `${path}=${count}`;

/** All that a response shows, as `path=value`. */
function found(
  body: string,
  { page = pageProfile('cursor', 2), query = '', records = 'data', headers = {} }: Asked = {},
) {
  const sent = new Set(new URLSearchParams(query).values());
  const { totals, pages, more } = undeclaredSignals({ headers, json: parseJson(body) }, records, page, sent);
  return { totals: totals.map(show), pages: pages.map(show), more };
}

describe('places that the profile does not name', () => {
  it.each([
    ['{"has_more":true}', 'has_more: true'],
    ['{"meta":{"pagination":{"next":3}}}', 'meta.pagination.next: 3'],
    ['{"page_info":{"hasNextPage":true}}', 'page_info.hasNextPage: true'],
    ['{"paging":{"next":{"after":"17"}}}', 'paging.next: {"after":"17"}'],
    ['{"@odata.nextLink":"https://a.example/b"}', '@odata.nextLink: "https://a.example/b"'],
  ])('more follows by %s', (body, more) => {
    expect(found(body)).toEqual({ totals: [], pages: [], more });
  });

  it.each([
    ['{"total":7}', 'total=7'],
    ['{"totalDocs":7}', 'totalDocs=7'],
    ['{"meta":{"page":{"total":7}}}', 'meta.page.total=7'],
    ['{"@odata.count":7}', '@odata.count=7'],
    ['{"hits":{"total":{"value":7,"relation":"eq"}}}', 'hits.total=7'],
  ])('a total by %s', (body, total) => {
    expect(found(body)).toEqual({ totals: [total], pages: [], more: null });
  });

  it.each([['{"totalPages":3}', 'totalPages=3']])('a number of pages by %s', (body, pages) => {
    expect(found(body)).toEqual({ totals: [], pages: [pages], more: null });
  });

  it('headers tell of all three', () => {
    const headers = { 'x-wp-total': '7', 'x-wp-totalpages': '3', link: '</a?page=2>; rel="next"' };
    const signals = {
      totals: ['header:x-wp-total=7'],
      pages: ['header:x-wp-totalpages=3'],
      more: 'header:link: "/a?page=2"',
    };
    expect(found('[]', { headers, records: '' })).toEqual(signals);
    expect(found('{}', { headers, page: pageProfile('link', 2) }).more).toBeNull();
    expect(found('[]', { headers: { 'content-range': 'items 0-9/319' }, records: '' }).totals).toHaveLength(1);
    expect(found('[]', { headers: { 'content-range': 'bytes 0-9/319' }, records: '' }).totals).toEqual([]);
  });

  it.each([
    '{"has_more":false}',
    '{"next":null,"next_url":"","hasNext":"false","next_page":0}',
    '{"data":[{"next":"a record\'s own field"}],"total":null}',
    '{"usage":{"total":100},"limits":{"count":5000}}',
  ])('there are none in %s', (body) => {
    expect(found(body)).toEqual({ totals: [], pages: [], more: null });
  });

  it('nothing that the profile names or rules out counts, nor what the request itself sent', () => {
    const none = { totals: [], pages: [], more: null };
    expect(found('{"meta":{"next":"x"}}', { page: pageProfile('cursor', 2, { next_cursor: 'meta.next' }) })).toEqual(
      none,
    );
    expect(found('{"next":"/a"}', { page: pageProfile('next-url', 2) })).toEqual(none);
    expect(found('{"cursor_token":"abc"}', { page: pageProfile('link', 2), query: 'token=abc' })).toEqual(none);
    expect(found('{"total":7,"pages":2}', { page: pageProfile('cursor', 2, { total: null }) })).toEqual(none);
    expect(
      found('{"meta":{"total":7}}', { page: pageProfile('cursor', 2, { ignored_totals: ['meta.total'] }) }),
    ).toEqual(none);
    expect(found('{"total":7}', { page: pageProfile('cursor', 2, { total: 'total' }) })).toEqual(none);
    const ignored = { page: pageProfile('cursor', 2, { ignored_totals: ['header:X-WP-Total'] }) };
    expect(found('{}', { ...ignored, headers: { 'x-wp-total': '7' } })).toEqual(none);
  });
});
