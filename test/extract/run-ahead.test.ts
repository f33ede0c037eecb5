import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { AheadWindow } from '../../src/extract/ahead-window.ts';
import type { ApiClient } from '../../src/http/client.ts';
import { directClient } from './direct-client.ts';
import { pageProfile, serve } from './five-styles.ts';
import { startListing } from './listing-server.ts';
import type { ListingServer, Responder } from './listing-server.ts';
import { collect, idsOf, numbered, walkOver } from './walking.ts';

const NUMBERED = ['page', 'offset'] as const;

/** Real requests that say how long they took as the test wants it. */
function clientOfLatency(latencyMs: number): ApiClient {
  const client = directClient();
  return { get: async (request) => ({ ...(await client.get(request)), latencyMs }), close: async () => {} };
}

/** A clock that is `step` further on every time someone looks: the consumer seems to keep a page for that long. */
function steppingClock(step: number) {
  let now = 0;
  return { monotonic: () => (now += step) };
}

async function slowListing(respond: Responder, delay = 15): Promise<ListingServer> {
  const server = await startListing(respond);
  server.delay = delay;
  return server;
}

describe('the window', () => {
  it.each([
    ['latency hidden by one request', 2, 5, 1],
    ['a little more', 6, 5, 2],
    ['50 ms of latency against 10 ms of work', 50, 10, 5],
    ['at most what is allowed', 500, 5, 8],
    ['no work at all', 50, 0, 8],
    ['no latency at all', 0, 0, 1],
  ])('%s: %i ms / %i ms opens it to %i', (_, latency, held, size) => {
    const window = new AheadWindow(8);
    window.answered(latency);
    expect(window.size()).toBe(1);
    window.consumed(held);
    expect(window.size()).toBe(size);
  });

  it('does not open for a single slow answer, and does for slow ones that stay', () => {
    const window = new AheadWindow(8);
    window.consumed(10);
    const sizes = [5, 5, 5, 200, 5, 200, 200].map((latency) => (window.answered(latency), window.size()));
    expect(sizes).toEqual([1, 1, 1, 1, 1, 1, 8]);
  });

  it('never opens where nothing may be fetched ahead', () => {
    const window = new AheadWindow(0);
    window.answered(50);
    window.consumed(1);
    expect(window.size()).toBe(0);
  });
});

describe.each(NUMBERED)('%s: pages in flight', (style) => {
  const page = pageProfile(style, 5);

  it('come one at a time while the consumer is slower than the service', async () => {
    const server = await slowListing(serve(style, numbered(50)));
    const options = { client: clientOfLatency(2), clock: steppingClock(5) };
    const { pages } = await collect(walkOver(server, page, options));
    expect(idsOf(pages)).toHaveLength(50);
    expect(server.mostAtOnce()).toBe(1);
  });

  it('open to the most that is allowed by the third page when the service is slow', async () => {
    const server = await slowListing(serve(style, numbered(200)));
    const pages = walkOver(server, page, { client: clientOfLatency(50), clock: steppingClock(1), runAhead: 6 });
    const asked: number[] = [];
    for (let taken = 0; taken < 3; taken++) {
      await pages.next();
      await sleep(5);
      asked.push(server.requests.length);
    }
    expect(asked).toEqual([2, 8, 9]);
    const { pages: rest } = await collect(pages);
    expect(idsOf(rest)).toHaveLength(185);
    expect(server.mostAtOnce()).toBe(6);
  });

  it('are none with runAhead 0', async () => {
    const server = await slowListing(serve(style, numbered(50)), 0);
    const pages = walkOver(server, page, { runAhead: 0, client: clientOfLatency(50), clock: steppingClock(1) });
    await pages.next();
    await pages.next();
    await sleep(20);
    expect(server.requests).toHaveLength(2);
    await pages.return();
  });

  it('are none past the told total, nor after a short first page', async () => {
    const fast = { client: clientOfLatency(50), clock: steppingClock(1) };
    const told = await slowListing(serve(style, numbered(50), { total: true }));
    await collect(walkOver(told, pageProfile(style, 5, { total: 'total' }), fast));
    // The tenth page is full, so the one after it has to be looked at, whatever the total says.
    expect(told.requests).toHaveLength(11);
    const short = await slowListing(serve(style, numbered(3)));
    await collect(walkOver(short, page, fast));
    expect(short.requests).toHaveLength(2);
  });

  it('past the end are bounded by the window, and their errors are nobody’s concern', async () => {
    const server = await slowListing((url, count) => {
      const reply = serve(style, numbered(50))(url, count);
      const number =
        style === 'page' ? Number(url.searchParams.get('page')) : Number(url.searchParams.get('offset')) / 5 + 1;
      return number > 11 ? { status: 500 } : reply;
    });
    const { pages, error } = await collect(
      walkOver(server, page, { client: clientOfLatency(50), clock: steppingClock(1) }),
    );
    expect([error, idsOf(pages).length]).toEqual([null, 50]);
    expect(server.requests.length).toBeLessThanOrEqual(11 + 8);
  });

  it('are handed out in order, though they arrive in any', async () => {
    const server = await startListing(serve(style, numbered(100)));
    const client = directClient();
    let nth = 0;
    const jumbled: ApiClient = {
      get: async (request) => {
        const wait = [30, 1, 20, 5, 10][nth++ % 5];
        const answer = await client.get(request);
        await sleep(wait);
        return { ...answer, latencyMs: 50 };
      },
      close: async () => {},
    };
    const { pages } = await collect(walkOver(server, page, { client: jumbled, clock: steppingClock(1) }));
    expect(idsOf(pages)).toEqual(numbered(100).map((record) => record.id));
  });

  it('F039 report an error only after every page before it', async () => {
    const server = await startListing((url, count) => {
      const reply = serve(style, numbered(100))(url, count);
      return JSON.stringify(reply.body).includes('{"id":26}') ? { status: 500 } : reply;
    });
    const slowBefore: ApiClient = {
      get: async (request) => {
        // The fifth page, just before the broken one, is the last to arrive.
        if (/page=5|offset=20/.test(request.url.search)) await sleep(60);
        return { ...(await directClient().get(request)), latencyMs: 50 };
      },
      close: async () => {},
    };
    const { pages, error } = await collect(walkOver(server, page, { client: slowBefore, clock: steppingClock(1) }));
    expect(idsOf(pages)).toEqual(numbered(25).map((record) => record.id));
    expect(error).toMatchObject({ code: 'service_error' });
  });

  it('are aborted and gone when the consumer leaves', async () => {
    const server = await slowListing(serve(style, numbered(500)), 40);
    let open = 0;
    const client = directClient();
    const counting: ApiClient = {
      get: async (request) => {
        open += 1;
        try {
          return { ...(await client.get(request)), latencyMs: 50 };
        } finally {
          open -= 1;
        }
      },
      close: async () => {},
    };
    const pages = walkOver(server, page, { client: counting, clock: steppingClock(1) });
    await pages.next();
    await pages.next();
    expect(open).toBeGreaterThan(1);
    await pages.return();
    expect(open).toBe(0);
  });
});

describe('offset: guesses that turn out wrong', () => {
  it('a page cut short in the middle moves all that follow, and nothing is skipped', async () => {
    const records = numbered(200);
    const server = await slowListing((url) => {
      const offset = Number(url.searchParams.get('offset'));
      return { body: { data: records.slice(offset, offset + (offset === 50 ? 7 : 10)) } };
    }, 5);
    const options = { client: clientOfLatency(50), clock: steppingClock(1) };
    const { pages, error } = await collect(walkOver(server, pageProfile('offset', 10), options));
    expect([error, idsOf(pages)]).toEqual([null, records.map((record) => record.id)]);
  });

  it('a service that cuts every page differently is soon asked one page at a time', async () => {
    const records = numbered(300);
    const server = await slowListing((url) => {
      const offset = Number(url.searchParams.get('offset'));
      return { body: { data: records.slice(offset, offset + 3 + (offset % 7)) } };
    }, 1);
    const options = { client: clientOfLatency(50), clock: steppingClock(1) };
    const { pages, error } = await collect(walkOver(server, pageProfile('offset', 3), options));
    expect([error, idsOf(pages)]).toEqual([null, records.map((record) => record.id)]);
    expect(server.requests.length).toBeLessThanOrEqual(pages.length + 3 * 8);
  });
});
