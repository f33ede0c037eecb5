import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { pageProfile, serve, STYLES } from './five-styles.ts';
import type { Style } from './five-styles.ts';
import { startListing } from './listing-server.ts';
import { collect, idsOf, numbered, walkOver } from './walking.ts';

const SERIAL = ['cursor', 'link', 'next-url'] as const satisfies Style[];

describe.each(STYLES)('%s: a walk', (style) => {
  it('reads every record once and in order, numbers the pages, and ends with next null', async () => {
    const server = await startListing(serve(style, numbered(25)));
    const { pages, error } = await collect(walkOver(server, pageProfile(style, 10)));
    expect(error).toBeNull();
    expect(idsOf(pages)).toEqual(numbered(25).map((record) => record.id));
    expect(pages.map((page) => page.number)).toEqual(pages.map((_, at) => at + 1));
    expect(pages.map((page) => page.next)).toEqual([...pages.slice(1).map((page) => page.position), null]);
  });

  it('of an empty listing is one empty page, asked for once', async () => {
    const server = await startListing(serve(style, []));
    const { pages, error } = await collect(walkOver(server, pageProfile(style, 10)));
    expect(error).toBeNull();
    expect(pages).toMatchObject([{ number: 1, next: null, records: [] }]);
    expect(server.requests).toHaveLength(1);
  });

  it('sends the size, the profile query and the filter once, on every page or in the first request', async () => {
    const server = await startListing(serve(style, numbered(3)));
    const resource = {
      path: '/content',
      query: { lang: 'de', limit: '99' },
      records: 'data',
      id: 'id',
      page: pageProfile(style, 2),
    };
    await collect(
      walkOver(server, resource.page, { resource, extraQuery: { updated_since: '2024-01-01T00:00:00+02:00' } }),
    );
    for (const [at, request] of server.requests.entries()) {
      const query = new URL(request, server.url).searchParams;
      expect([at, query.getAll('limit'), query.getAll('lang')]).toEqual([at, ['2'], ['de']]);
      expect(query.getAll('updated_since')).toEqual(['2024-01-01T00:00:00+02:00']);
    }
  });

  it('stops at once when it is told to, and asks for nothing more', async () => {
    const server = await startListing(serve(style, numbered(40)));
    const stop = new AbortController();
    const pages = walkOver(server, pageProfile(style, 10), { signal: stop.signal });
    await pages.next();
    stop.abort(new Error('enough'));
    await expect(pages.next()).rejects.toThrow('enough');
    expect(server.requests.length).toBeLessThanOrEqual(2);
  });
});

describe.each(SERIAL)('%s', (style) => {
  it.each([
    ['one page further than the one in hand', {}, 1],
    ['no page further where nothing may be fetched ahead', { runAhead: 0 }, 0],
  ])('F060 asks for %s', async (_, extras, further) => {
    const server = await startListing(serve(style, numbered(50)));
    const pages = walkOver(server, pageProfile(style, 10), extras);
    for (let page = 1; page <= 3; page++) {
      await pages.next();
      await vi.waitUntil(() => server.requests.length >= page + further, { timeout: 10_000 });
      // Long enough for one too many to come.
      await sleep(20);
      expect(server.requests).toHaveLength(page + further);
    }
    await pages.return();
  });

  it('F060 asks for nothing more behind a page that is enough', async () => {
    const server = await startListing(serve(style, numbered(50)));
    const { pages, error } = await collect(walkOver(server, pageProfile(style, 10), { isEnough: () => hasRecords }));
    expect([error, idsOf(pages).length, server.requests.length]).toEqual([null, 10, 1]);
  });
});

function hasRecords({ records }: { records: readonly unknown[] }): boolean {
  return records.length > 0;
}

describe('F033 an answer without an array of records', () => {
  it.each([
    ['an empty object', '{}', 'found nothing'],
    ['null for the records', '{"data":null}', 'found null'],
    ['an object for the records', '{"data":{"a":1}}', 'found an object with the keys "a"'],
    ['a string for the records', '{"data":"none"}', 'found the string "none"'],
    ['another key', '{"items":[]}', 'found nothing'],
    ['an array for the body', '[]', 'found nothing'],
  ])('%s fails, as the first page and as the last', async (_, body, found) => {
    const server = await startListing((_, count) =>
      count % 2 === 0 ? { body } : { body: { data: [{ id: 1 }], next_cursor: 'A' } },
    );
    const later = await collect(walkOver(server, pageProfile('cursor', 1)));
    expect(later.pages).toHaveLength(1);
    expect(later.error).toMatchObject({ code: 'bad_page', recovery: 'stop', message: expect.stringContaining(found) });
    server.requests.push('');
    const first = await collect(walkOver(server, pageProfile('cursor', 1)));
    expect(first).toMatchObject({ pages: [], error: { code: 'bad_page' } });
  });

  it.each(['', 'null'])('a body of %j fails before it can look like an end', async (body) => {
    const server = await startListing((_, count) =>
      count === 1 ? { body: { data: [{ id: 1 }], next_cursor: 'A' } } : { body },
    );
    const { pages, error } = await collect(walkOver(server, pageProfile('cursor', 1)));
    expect([pages.length, error]).toEqual([1, expect.objectContaining({ code: 'empty_body' })]);
  });

  it('reads a body that is the array itself', async () => {
    const server = await startListing(() => ({ body: [{ id: 1 }] }));
    const { pages, error } = await collect(walkOver(server, pageProfile('link', 5), { records: '' }));
    expect([error, idsOf(pages)]).toEqual([null, [1]]);
  });
});

describe('F058 a page that carries fewer records than it says', () => {
  it.each([
    ['items 0-1/9', false],
    ['0-1/*', false],
    ['items 0-0/9', true],
    ['items=0-0/9', true],
    ['items 8-17/9', true],
    ['bytes 0-999/1000', true],
    ['items */0', true],
    ['nonsense', true],
  ])('Content-Range: %s on a page of one record passes: %s', async (range, passes) => {
    const server = await startListing(() => ({
      headers: { 'content-range': range },
      body: { data: [{ id: 1 }], next_cursor: null },
    }));
    const { error } = await collect(walkOver(server, pageProfile('cursor', 5)));
    expect(error === null).toBe(passes);
  });
});

describe('F053 C35 a total that is wrong', () => {
  const totals = [0, 3, '25', 'many', null, -1, 2.5, {}, true];
  const cases = STYLES.flatMap((style) => totals.map((total) => [style, total] as const));

  it.each(cases)('%s: %j stops nothing', async (style, total) => {
    const right = serve(style, numbered(25));
    const server = await startListing((url, count) => {
      const reply = right(url, count);
      return { ...reply, body: { ...Object(reply.body), total } };
    });
    const { pages, error } = await collect(walkOver(server, pageProfile(style, 10, { total: 'total' })));
    expect([error, idsOf(pages)]).toEqual([null, numbered(25).map((record) => record.id)]);
    expect(pages[0]?.total).toBe(
      total === '25' ? 25 : typeof total === 'number' && total >= 0 && total !== 2.5 ? total : null,
    );
  });

  it.each(['page', 'offset'] as const)('%s: a right one saves the request for an empty page', async (style) => {
    const server = await startListing(serve(style, numbered(25), { total: true }));
    await collect(walkOver(server, pageProfile(style, 10, { total: 'total' })));
    expect(server.requests).toHaveLength(3);
  });

  it('offset: one that is too large fails instead of ending well', async () => {
    const server = await startListing((url, count) => {
      const reply = serve('offset', numbered(5))(url, count);
      return { body: { ...Object(reply.body), total: 500 } };
    });
    const { error } = await collect(walkOver(server, pageProfile('offset', 10, { total: 'total' })));
    expect(error).toMatchObject({ code: 'guard_loop', hint: expect.stringContaining('page.total: null') });
  });
});

describe('F038 a position that the service no longer knows', () => {
  it.each([404, 410, 400, 207])('%i in the middle is cursor_expired', async (status) => {
    const server = await startListing((url, count) =>
      count === 4 ? { status, body: {} } : serve('cursor', numbered(50))(url, count),
    );
    const { pages, error } = await collect(walkOver(server, pageProfile('cursor', 10)));
    expect(pages).toHaveLength(3);
    expect(error).toMatchObject({
      code: 'cursor_expired',
      recovery: 'stop',
      hint: expect.stringContaining('from the beginning'),
    });
  });

  it.each([
    [404, 'not_found'],
    [207, 'listing_missing'],
  ])('but %i for the first page is %s', async (status, code) => {
    const server = await startListing(() => ({ status, body: {} }));
    const { error } = await collect(walkOver(server, pageProfile('cursor', 10)));
    expect(error).toMatchObject({ code });
  });
});
