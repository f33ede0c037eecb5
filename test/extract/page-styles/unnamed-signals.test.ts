import { describe, expect, it } from 'vitest';
import { unnamedSignals } from '../../../src/extract/page-styles/unnamed-signals.ts';
import { parseJson } from '../../../src/shape/json/parse-json.ts';
import { pageProfile } from '../five-styles.ts';

const found = (body: string, page = pageProfile('cursor', 2), query = ''): string[] =>
  unnamedSignals(parseJson(body), 'data', page, new Set(new URLSearchParams(query).values())).map(
    ({ path, shown }) => `${path}=${shown}`,
  );

describe('fields that say that more follows, and that the profile does not name', () => {
  it.each([
    ['{"has_more":true}', 'has_more=true'],
    ['{"meta":{"pagination":{"next":3}}}', 'meta.pagination.next=3'],
    ['{"links":{"next":"/v1/content?page=2"}}', 'links.next="/v1/content?page=2"'],
    ['{"nextPageToken":"abc"}', 'nextPageToken="abc"'],
    ['{"page_info":{"hasNextPage":true}}', 'page_info.hasNextPage=true'],
    ['{"paging":{"next":{"after":"17"}}}', 'paging.next={"after":"17"}'],
    ['{"continue":{"gapcontinue":"X"}}', 'continue={"gapcontinue":"X"}'],
    ['{"@odata.nextLink":"https://a.example/b"}', '@odata.nextLink="https://a.example/b"'],
  ])('are found in %s', (body, expected) => {
    expect(found(body)).toEqual([expected]);
  });

  it.each([
    '{"has_more":false}',
    '{"next":null,"next_url":"","hasNext":"false","next_page":0}',
    '{"data":[{"next":"a record\'s own field"}]}',
    '{"nextly":"x","a":{"b":{"c":{"next":"too deep"}}}}',
    '[1,2]',
  ])('are none in %s', (body) => {
    expect(found(body)).toEqual([]);
  });

  it('are none of those that the profile reads, nor what the request itself sent', () => {
    expect(found('{"meta":{"next":"x"}}', pageProfile('cursor', 2, { next_cursor: 'meta.next' }))).toEqual([]);
    expect(found('{"next":"/a"}', pageProfile('next-url', 2))).toEqual([]);
    expect(found('{"cursor_token":"abc"}', pageProfile('link', 2), 'token=abc')).toEqual([]);
  });
});
