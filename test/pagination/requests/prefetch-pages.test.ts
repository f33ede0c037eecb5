import { describe, expect, it } from 'vitest';
import type { ApiClient } from '../../../src/http/client.ts';
import { SyncError } from '../../../src/model/errors.ts';
import { pageProfile, serve } from '../five-styles.ts';
import { startListing } from '../listing-server.ts';
import type { ListingServer, Responder } from '../listing-server.ts';
import { collect, idsOf, numbered, walkOver } from '../walking.ts';

const NUMBERED = ['page', 'offset'] as const;

/** Real requests, counted where the requests begin: `asked` in all, `open` now, `most` at once. */
function counted() {
  const counts = { asked: 0, open: 0, most: 0 };
  const around = (client: ApiClient): ApiClient => ({
    ...client,
    get: async (request) => {
      counts.asked += 1;
      counts.most = Math.max(counts.most, ++counts.open);
      try {
        return await client.get(request);
      } finally {
        counts.open -= 1;
      }
    },
  });
  return { counts, around };
}

async function slowListing(respond: Responder, delay = 15): Promise<ListingServer> {
  const server = await startListing(respond);
  server.delay = delay;
  return server;
}

function untilAborted(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)));
}

describe.each(NUMBERED)('%s: pages in flight', (style) => {
  const page = pageProfile(style, 5);

  it('are twice as many each time that the consumer has to wait, up to the most that is allowed', async () => {
    const server = await slowListing(serve(style, numbered(200)));
    const { counts, around } = counted();
    const { pages } = await collect(walkOver(server, page, { around, runAhead: 6 }));
    expect([idsOf(pages).length, counts.most]).toEqual([200, 6]);
  });

  it('are none past the told total, nor after a short first page', async () => {
    const told = await slowListing(serve(style, numbered(50), { total: true }));
    await collect(walkOver(told, pageProfile(style, 5, { total: 'total' })));
    // The tenth page is full, so the one after it has to be looked at, whatever the total says.
    expect(told.requests).toHaveLength(11);
    const short = await slowListing(serve(style, numbered(3)));
    await collect(walkOver(short, page));
    // It may have been full, for all that anybody knows: it is looked at once more behind the empty one.
    expect(short.requests).toHaveLength(3);
    expect(short.requests[2]).toBe(short.requests[0]);
  });

  it('are asked for again in their turn where there was no memory for them before', async () => {
    const server = await slowListing(serve(style, numbered(100)));
    let refused = 0;
    const full = (client: ApiClient): ApiClient => ({
      ...client,
      get: async (request) => {
        if (request.whenFull !== 'fail') return client.get(request);
        refused += 1;
        throw new SyncError('memory_full', 'no memory', { recovery: 'retry' });
      },
    });
    const { pages, error } = await collect(walkOver(server, page, { around: full }));
    expect(error).toBeNull();
    expect(idsOf(pages)).toEqual(numbered(100).map((record) => record.id));
    expect(refused).toBeGreaterThan(0);
  });

  it('are aborted and gone when the consumer leaves', async () => {
    const server = await startListing(serve(style, numbered(500)));
    const { counts, around } = counted();
    const endless = (client: ApiClient): ApiClient => ({
      ...client,
      get: (request) => (counts.asked > 2 ? untilAborted(request.signal) : client.get(request)),
    });
    const pages = walkOver(server, page, { around: (client) => around(endless(client)) });
    await pages.next();
    await pages.next();
    expect(counts.open).toBeGreaterThan(1);
    await pages.return();
    expect(counts.open).toBe(0);
  });
});

describe('offset: guesses that turn out wrong', () => {
  it('a page cut short in the middle moves all that follow, and nothing is skipped', async () => {
    const records = numbered(200);
    const server = await slowListing((url) => {
      const offset = Number(url.searchParams.get('offset'));
      return { body: { data: records.slice(offset, offset + (offset === 50 ? 7 : 10)) } };
    }, 5);
    const { pages, error } = await collect(walkOver(server, pageProfile('offset', 10)));
    expect([error, idsOf(pages)]).toEqual([null, records.map((record) => record.id)]);
  });
});
