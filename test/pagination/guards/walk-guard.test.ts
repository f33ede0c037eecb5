import { describe, expect, it } from 'vitest';
import { pageProfile } from '../five-styles.ts';
import { startListing } from '../listing-server.ts';
import type { Responder } from '../listing-server.ts';
import { collect, idsOf, numbered, walkOver } from '../walking.ts';

/** A cursor listing where each page has one new record and `tokens[n]` as its next cursor; the last token stays. */
function tokenListing(tokens: unknown[]): Responder {
  return (_, count) => ({ body: { data: [{ id: count }], next_cursor: tokens[count - 1] ?? tokens.at(-1) } });
}

async function walkCursor(respond: Responder, size = 1) {
  const server = await startListing(respond);
  return { ...(await collect(walkOver(server, pageProfile('cursor', size)))), server };
}

describe('circles', () => {
  it('F048 stops at a repeated cursor within two requests', async () => {
    const { error, pages, server } = await walkCursor(tokenListing(['A']));
    expect(error).toMatchObject({ code: 'guard_repeated_cursor', recovery: 'stop' });
    expect(server.requests).toHaveLength(2);
    expect(idsOf(pages)).toEqual([1]);
  });

  it('F049 stops in a cycle of cursors before it begins the second lap', async () => {
    const { error, server } = await walkCursor((_, count) => ({
      body: { data: [{ id: count }], next_cursor: ['A', 'B', 'C'][(count - 1) % 3] },
    }));
    expect(error).toMatchObject({ code: 'guard_cycle', recovery: 'stop' });
    expect(server.requests).toHaveLength(4);
  });

  it('F049 stops at a next URL that leads back to the first page', async () => {
    const server = await startListing((url) => ({ body: { data: [{ id: 1 }], next: url.pathname + url.search } }));
    const { error } = await collect(walkOver(server, pageProfile('next-url', 1)));
    expect(error).toMatchObject({ code: 'guard_repeated_cursor' });
    expect(server.requests).toHaveLength(1);
  });
});

describe('pages that do not move', () => {
  it('stops when the same records come under another cursor', async () => {
    const { error, pages } = await walkCursor((_, count) => ({
      body: { data: [{ id: 1 }], next_cursor: `c${count}` },
    }));
    expect(error).toMatchObject({ code: 'guard_page_repeated', recovery: 'stop' });
    expect(pages).toHaveLength(1);
  });

  it('stops when two pages take turns under ever new cursors', async () => {
    const { error, pages } = await walkCursor((_, count) => ({
      body: { data: [{ id: count % 2 }], next_cursor: `c${count}` },
    }));
    expect(error).toMatchObject({ code: 'guard_page_repeated' });
    expect(pages).toHaveLength(2);
  });

  it.each(['page', 'offset'] as const)('%s: stops when the service does not know the parameter', async (style) => {
    const server = await startListing(() => ({ body: { data: numbered(20) } }));
    const { error, pages } = await collect(walkOver(server, pageProfile(style, 20)));
    expect(error).toMatchObject({ code: 'guard_page_repeated', hint: expect.stringContaining('page parameter') });
    expect(pages).toHaveLength(1);
  });

  it('page: lets a few tiny pages repeat, since records inserted at the head shift them, but not for ever', async () => {
    const server = await startListing(() => ({ body: { data: [{ id: 1 }] } }));
    const { error, pages } = await collect(walkOver(server, pageProfile('page', 1)));
    expect(error).toMatchObject({ code: 'guard_page_repeated' });
    expect(pages).toHaveLength(4);
  });
});

/** One record, `empty` pages without any, one record. */
function emptyPages(empty: number): Responder {
  return (_, count) => ({
    body: {
      data: count === 1 || count === empty + 2 ? [{ id: count }] : [],
      next_cursor: count === empty + 2 ? null : `c${count}`,
    },
  });
}

/** Pages 1 and 3 hold one record each, and no others any. */
function emptySecondPage(total: number): Responder {
  return (url) => {
    const page = Number(url.searchParams.get('page'));
    return { body: { data: page === 1 || page === 3 ? [{ id: page }] : [], total } };
  };
}

describe('F050 empty pages that promise a next one', () => {
  it.each([1, 3, 10])('goes on over %i of them', async (empty) => {
    const { error, pages } = await walkCursor(emptyPages(empty));
    expect(error).toBeNull();
    expect(idsOf(pages)).toEqual([1, empty + 2]);
    expect(pages).toHaveLength(empty + 2);
  });

  it('fails at the eleventh in a row', async () => {
    const { error, pages } = await walkCursor(emptyPages(11));
    expect(error).toMatchObject({ code: 'guard_empty_pages', recovery: 'stop' });
    expect(pages).toHaveLength(11);
  });

  it('fails when they never end', async () => {
    const { error } = await walkCursor((_, count) => ({ body: { data: [], next_cursor: `c${count}` } }));
    expect(error).toMatchObject({ code: 'guard_empty_pages' });
  });

  it('page: goes on over an empty page before the told total, and fails if the total is never reached', async () => {
    const page = pageProfile('page', 2, { total: 'total' });
    const good = await collect(walkOver(await startListing(emptySecondPage(2)), page));
    expect(good.error).toBeNull();
    expect(idsOf(good.pages)).toEqual([1, 3]);
    const bad = await collect(walkOver(await startListing(emptySecondPage(3)), page));
    expect(bad.error).toMatchObject({ code: 'guard_empty_pages' });
  });
});
