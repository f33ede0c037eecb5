import { describe, expect, it } from 'vitest';
import { linkedPosition, requestAt } from '../../../src/pagination/page-styles/listing-request.ts';
import { loadPosition } from '../../../src/pagination/page-styles/page-position.ts';
import { pageProfile } from '../five-styles.ts';
import { startListing } from '../listing-server.ts';
import { collect, walkOver } from '../walking.ts';

const BASE = new URL('https://cms.example.com/api');
const ANSWERED = new URL('https://cms.example.com/api/v1/content?limit=2');

describe('F055 follows only links that stay at home', () => {
  it.each([
    ['a query alone', '?cursor=2', '/api/v1/content?cursor=2'],
    ['a path', '/api/v1/content?cursor=2', '/api/v1/content?cursor=2'],
    ['a relative path', 'content?cursor=2', '/api/v1/content?cursor=2'],
    ['the whole URL', 'https://cms.example.com/api/v1/content?cursor=2', '/api/v1/content?cursor=2'],
    ['the default port and upper case', 'HTTPS://CMS.example.com:443/x', '/x'],
    ['http instead of https', 'http://cms.example.com/x?y=1', '/x?y=1'],
    ['http with the port of https', 'http://cms.example.com:443/x', '/x'],
    ['a fragment, which is dropped', '/x?y=1#z', '/x?y=1'],
  ])('%s', (_, link, expected) => {
    expect(linkedPosition(BASE, ANSWERED, link)).toEqual({ url: expected });
  });

  it.each([
    ['another host', 'https://evil.example/v1'],
    ['another port', 'https://cms.example.com:8443/v1'],
    ['http on another port', 'http://cms.example.com:8080/v1'],
    ['http with a user name', 'http://me@cms.example.com/v1'],
    ['a protocol-relative link', '//evil.example/v1'],
    ['a protocol-relative link home', '//cms.example.com/v1'],
    ['backslashes for slashes', '\\\\evil.example/v1'],
    ['a slash and a backslash', '/\\evil.example/v1'],
    ['blanks before a protocol-relative link', '  //evil.example/v1'],
    ['a user name', 'https://me@cms.example.com/v1'],
    ['a user name that looks like the host', 'https://cms.example.com@evil.example/v1'],
    ['another scheme', 'ftp://cms.example.com/v1'],
    ['a data URL', 'data:application/json,{}'],
    ['a host that begins alike', 'https://cms.example.com.evil.example/'],
  ])('refuses %s', (_, link) => {
    expect(linkedPosition(BASE, ANSWERED, link)).toMatchObject({ code: 'origin_refused' });
  });

  it.each([
    ['F210 CR LF', '/x\r\nHost: evil'],
    ['a tab that a URL parser would drop', '/\t/evil.example'],
    ['NUL', '/x\u0000'],
    ['half a character', '/x\ud800'],
    ['no URL at all', 'https://['],
  ])('refuses %s', (_, link) => {
    expect(linkedPosition(BASE, ANSWERED, link)).toMatchObject({ code: 'pagination_invalid' });
  });

  it('does not print a password that stands in a refused link', () => {
    const fault = linkedPosition(BASE, ANSWERED, 'https://me:hunter2@evil.example/');
    expect(JSON.stringify(fault)).not.toContain('hunter2');
  });

  it.each(['next-url', 'link'] as const)('%s: sends nothing to another origin', async (style) => {
    const canary = await startListing(() => ({ body: { data: [], next: null } }));
    const server = await startListing(() => ({
      body: { data: [{ id: 1 }], next: `${canary.url.origin}/v1/content` },
      headers: { link: `<${canary.url.origin}/v1/content>; rel="next"` },
    }));
    const { pages, error } = await collect(walkOver(server, pageProfile(style, 1)));
    expect(error).toMatchObject({ code: 'origin_refused', recovery: 'stop' });
    expect(pages).toEqual([]);
    expect(canary.requests).toEqual([]);
  });
});

describe('a stored position', () => {
  it('stays on the base URL, also when its path begins with two slashes', () => {
    const parts = { target: { baseUrl: BASE, prefix: '' }, templates: { path: '/', query: {} }, values: {} };
    const { url } = requestAt(parts, loadPosition('{"url":"//evil.example/x"}', {}, {}));
    expect(url.href).toBe('https://cms.example.com//evil.example/x');
  });

  it.each([
    '',
    'https://evil.example/',
    ...['', 'https://evil.example/', '@evil.example/', '.evil.example/', '/x\r\n', ':80/'].map((url) =>
      JSON.stringify({ url }),
    ),
    '{"url":"/x","values":{"body:after":null}}',
    '/%5B%22en%22 /x',
    '/x#evil',
  ])('%j is refused', (stored) => {
    expect(() => loadPosition(stored, {}, {})).toThrow(expect.objectContaining({ code: 'warehouse_corrupt' }));
  });

  it.each([
    ['a path and query', '/posts?page=3&limit=5', { url: '/posts?page=3&limit=5' }],
    [
      'values in the fragment',
      `/posts#${encodeURIComponent('{"body:after":90071992547409931}')}`,
      { url: '/posts', values: { 'body:after': JSON.rawJSON('90071992547409931') } },
    ],
    [
      'one of several listings',
      `/${encodeURIComponent('["en",12,30,[]]')} /posts?page=2`,
      { url: '/posts?page=2', listing: { partition: 'en', leastTotal: 30, doubts: [] } },
    ],
  ])('of an earlier version is read: %s', (_, stored, expected) => {
    expect(loadPosition(stored, {}, {})).toEqual(expected);
  });
});
