import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { AheadWindow } from '../../../src/extract/requests/ahead-window.ts';
import type { ApiClient } from '../../../src/http/client.ts';
import type { Page } from '../../../src/extract/page.ts';
import { SyncError } from '../../../src/model/errors.ts';
import { pageProfile, serve } from '../five-styles.ts';
import { startListing } from '../listing-server.ts';
import type { ListingServer, Responder } from '../listing-server.ts';
import { sayingLatency } from '../real-client.ts';
import { collect, idsOf, numbered, walkOver } from '../walking.ts';

const NUMBERED = ['page', 'offset'] as const;

/** Real requests that say how long they took as the test wants it. */
function latency(ms: number) {
  return { around: (client: ApiClient) => sayingLatency(client, ms) };
}

/** The same, counted where the requests begin: `asked` in all, `open` now, `most` at once. */
function counted(ms: number) {
  const counts = { asked: 0, open: 0, most: 0 };
  const around = (client: ApiClient): ApiClient => ({
    ...client,
    get: async (request) => {
      counts.asked += 1;
      counts.most = Math.max(counts.most, ++counts.open);
      try {
        return { ...(await client.get(request)), latencyMs: ms };
      } finally {
        counts.open -= 1;
      }
    },
  });
  return { counts, around };
}

/** A clock that is `step` further on every time someone looks: the consumer seems to keep a page for that long. */
function steppingClock(step: number) {
  let now = 0;
  return { now: () => now, monotonic: () => (now += step), sleep: (ms: number) => sleep(ms) };
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
  ])('%s: %i ms / %i ms opens it to %i', (_, latencyMs, heldMs, size) => {
    const window = new AheadWindow(8);
    window.answered(latencyMs, latencyMs, 1_000);
    expect(window.size()).toBe(1);
    window.consumed(heldMs, false);
    expect(window.size()).toBe(size);
  });

  it('stays where it is while pages are there before they are asked for', () => {
    const window = new AheadWindow(8);
    window.answered(50, 50, 1_000);
    window.consumed(5, true);
    expect(window.size()).toBe(1);
  });

  it('does not believe that answers are slow which only wait for this process', () => {
    const window = new AheadWindow(8);
    window.answered(2, 2, 1_000);
    for (let page = 0; page < 100; page++) {
      window.consumed(5, false);
      window.answered(5 * window.size() + 2, 1, 1_000);
    }
    expect(window.size()).toBe(1);
  });

  it('opens again when the service becomes slow, and closes when it recovers', () => {
    const window = new AheadWindow(8);
    const pages = (count: number, latencyMs: number) => {
      for (let page = 0; page < count; page++) {
        window.consumed(10, false);
        window.answered(latencyMs, Math.max(0, latencyMs / window.size() - 10), 1_000);
      }
    };
    pages(5, 5);
    expect(window.size()).toBe(1);
    pages(20, 200);
    expect(window.size()).toBe(8);
    pages(20, 5);
    expect(window.size()).toBe(1);
  });

  it('never opens where nothing may be fetched ahead', () => {
    const window = new AheadWindow(0);
    window.answered(50, 50, 1_000);
    window.consumed(1, false);
    window.answered(50, 50, 1_000);
    expect(window.size()).toBe(0);
  });
});

/** The fifth page is the last to arrive. */
function slowBefore(client: ApiClient): ApiClient {
  return {
    ...client,
    get: async (request) => {
      if (/page=5|offset=20/.test(request.url.search)) await sleep(60);
      return { ...(await client.get(request)), latencyMs: 50 };
    },
  };
}

function untilAborted(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)));
}

describe.each(NUMBERED)('%s: pages in flight', (style) => {
  const page = pageProfile(style, 5);

  it('come one at a time while the consumer is slower than the service', async () => {
    const server = await slowListing(serve(style, numbered(50)));
    const { counts, around } = counted(2);
    const { pages } = await collect(walkOver(server, page, { around, clock: steppingClock(5) }));
    expect(idsOf(pages)).toHaveLength(50);
    expect(counts.most).toBe(1);
  });

  it.each([
    [true, 6],
    [false, 4],
  ])(
    'are joined by some that wait in line, once as many as may be are under way, if a total is told: %s',
    async (total, most) => {
      const server = await slowListing(serve(style, numbered(200), { total }));
      const { counts, around } = counted(50);
      await collect(
        walkOver(
          server,
          { ...page, total: total ? 'total' : null },
          { around, clock: steppingClock(1), runAhead: 4, inLine: 2 },
        ),
      );
      expect(counts.most).toBe(most);
    },
  );

  it('open to the most that is allowed by the third page when the service is slow', async () => {
    const server = await slowListing(serve(style, numbered(200)));
    const { counts, around } = counted(50);
    const pages = walkOver(server, page, { around, clock: steppingClock(1), runAhead: 6 });
    const asked: number[] = [];
    for (let taken = 0; taken < 3; taken++) {
      await pages.next();
      asked.push(counts.asked);
    }
    expect(asked).toEqual([2, 8, 9]);
    const { pages: rest } = await collect(pages);
    expect(idsOf(rest)).toHaveLength(185);
    expect(counts.most).toBe(6);
  });

  it('are as many as are allowed while the first of them is late', async () => {
    const server = await startListing(serve(style, numbered(200)));
    const { counts, around } = counted(50);
    const gate = Promise.withResolvers<void>();
    const lateFifth = (client: ApiClient): ApiClient => ({
      ...client,
      get: async (request) => {
        if (counts.asked === 5) await gate.promise;
        return client.get(request);
      },
    });
    const options = { runAhead: 6, clock: steppingClock(1) };
    const pages = walkOver(server, page, { ...options, around: (client) => around(lateFifth(client)) });
    for (let taken = 0; taken < 4; taken++) await pages.next();
    // Six under way, and as many answers as half of them: no more wait for the late one.
    await vi.waitFor(() => expect(counts).toMatchObject({ asked: 13, open: 1 }), 10_000);
    gate.resolve();
    const { pages: rest } = await collect(pages);
    expect([idsOf(rest).length, counts.most]).toEqual([180, 6]);
  });

  it('are fewer the more pages the consumer has in hand, beyond the two that it works on', async () => {
    const server = await slowListing(serve(style, numbered(300)), 5);
    const { counts, around } = counted(50);
    const options = { overlaps: true, runAhead: 6, around, clock: steppingClock(1) };
    const held: Page[] = [];
    const pages: Page[] = [];
    let unwritten = 0;
    for await (const one of walkOver(server, page, options)) {
      pages.push(one);
      held.push(one);
      unwritten = Math.max(unwritten, counts.asked - pages.length + held.length);
      if (held.length === 8) for (const { release } of held.splice(0)) release();
    }
    expect(idsOf(pages)).toEqual(numbered(300).map((record) => record.id));
    // Six under way, half as many answers, and those two.
    expect(unwritten).toBe(11);
  });

  it('are none with runAhead 0', async () => {
    const server = await slowListing(serve(style, numbered(50)), 0);
    const { counts, around } = counted(50);
    const pages = walkOver(server, page, { runAhead: 0, around, clock: steppingClock(1) });
    await pages.next();
    await pages.next();
    expect(counts).toEqual({ asked: 2, open: 0, most: 1 });
    await pages.return();
  });

  it('are none past the told total, nor after a short first page', async () => {
    const fast = { ...latency(50), clock: steppingClock(1) };
    const told = await slowListing(serve(style, numbered(50), { total: true }));
    await collect(walkOver(told, pageProfile(style, 5, { total: 'total' }), fast));
    // The tenth page is full, so the one after it has to be looked at, whatever the total says.
    expect(told.requests).toHaveLength(11);
    const short = await slowListing(serve(style, numbered(3)));
    await collect(walkOver(short, page, fast));
    // It may have been full, for all that anybody knows: it is looked at once more behind the empty one.
    expect(short.requests).toHaveLength(3);
    expect(short.requests[2]).toBe(short.requests[0]);
  });

  it('past the end are bounded by the window, and their errors are nobody’s concern', async () => {
    const server = await slowListing((url, count) => {
      const reply = serve(style, numbered(50))(url, count);
      const number =
        style === 'page' ? Number(url.searchParams.get('page')) : Number(url.searchParams.get('offset')) / 5 + 1;
      return number > 11 ? { status: 500 } : reply;
    });
    const { pages, error } = await collect(walkOver(server, page, { ...latency(50), clock: steppingClock(1) }));
    expect([error, idsOf(pages).length]).toEqual([null, 50]);
    expect(server.requests.length).toBeLessThanOrEqual(11 + 8);
  });

  it('are handed out in order, though they arrive in any', async () => {
    const server = await startListing(serve(style, numbered(100)));
    let nth = 0;
    const jumbled = (client: ApiClient): ApiClient => ({
      ...client,
      get: async (request) => {
        const wait = [30, 1, 20, 5, 10][nth++ % 5];
        const answer = await client.get(request);
        await sleep(wait);
        return { ...answer, latencyMs: 50 };
      },
    });
    const { pages } = await collect(walkOver(server, page, { around: jumbled, clock: steppingClock(1) }));
    expect(idsOf(pages)).toEqual(numbered(100).map((record) => record.id));
  });

  it('are asked for again in their turn where there was no memory for them before', async () => {
    const server = await slowListing(serve(style, numbered(100)));
    let refused = 0;
    const full = (client: ApiClient): ApiClient => ({
      ...client,
      get: async (request) => {
        if (request.whenFull !== 'fail') return { ...(await client.get(request)), latencyMs: 50 };
        refused += 1;
        throw new SyncError('memory_full', 'no memory', { recovery: 'retry' });
      },
    });
    const { pages, error } = await collect(walkOver(server, page, { around: full, clock: steppingClock(1) }));
    expect(error).toBeNull();
    expect(idsOf(pages)).toEqual(numbered(100).map((record) => record.id));
    expect(refused).toBeGreaterThan(0);
  });

  it('F039 report an error only after every page before it', async () => {
    const server = await startListing((url, count) => {
      const reply = serve(style, numbered(100))(url, count);
      return JSON.stringify(reply.body).includes('{"id":26}') ? { status: 500 } : reply;
    });
    const { pages, error } = await collect(walkOver(server, page, { around: slowBefore, clock: steppingClock(1) }));
    expect(idsOf(pages)).toEqual(numbered(25).map((record) => record.id));
    expect(error).toMatchObject({ code: 'service_error' });
  });

  it('are aborted and gone when the consumer leaves', async () => {
    const server = await startListing(serve(style, numbered(500)));
    const { counts, around } = counted(50);
    const endless = (client: ApiClient): ApiClient => ({
      ...client,
      get: (request) => (counts.asked > 2 ? untilAborted(request.signal) : client.get(request)),
    });
    const pages = walkOver(server, page, { around: (client) => around(endless(client)), clock: steppingClock(1) });
    await pages.next();
    await pages.next();
    expect(counts.open).toBe(8);
    await pages.return();
    expect(counts.open).toBe(0);
  });

  it('are not handed out any more after an abort, though they have arrived', async () => {
    const server = await startListing(serve(style, numbered(50)));
    const { counts, around } = counted(50);
    const stop = new AbortController();
    const pages = walkOver(server, page, { around, clock: steppingClock(100), signal: stop.signal });
    await pages.next();
    await vi.waitFor(() => expect(counts).toMatchObject({ asked: 2, open: 0 }));
    stop.abort(new Error('enough'));
    await expect(pages.next()).rejects.toThrow('enough');
  });

  it('go no further once a page that looks like the last one has arrived', async () => {
    const server = await startListing(serve(style, numbered(50)));
    const { counts, around } = counted(50);
    const gate = Promise.withResolvers<number>();
    let askedThen = 0;
    const lateFourth = (client: ApiClient): ApiClient => ({
      ...client,
      get: async (request) => {
        const nth = counts.asked;
        if (nth === 4) await gate.promise;
        const answer = await client.get(request);
        if (nth === 11) setTimeout(gate.resolve, 5, (askedThen = counts.asked));
        return answer;
      },
    });
    const walk = walkOver(server, page, { around: (client) => around(lateFourth(client)), clock: steppingClock(1) });
    const { pages } = await collect(walk);
    expect([idsOf(pages).length, counts.asked]).toEqual([50, askedThen]);
  });
});

describe('offset: guesses that turn out wrong', () => {
  it('a page cut short in the middle moves all that follow, and nothing is skipped', async () => {
    const records = numbered(200);
    const server = await slowListing((url) => {
      const offset = Number(url.searchParams.get('offset'));
      return { body: { data: records.slice(offset, offset + (offset === 50 ? 7 : 10)) } };
    }, 5);
    const options = { ...latency(50), clock: steppingClock(1) };
    const { pages, error } = await collect(walkOver(server, pageProfile('offset', 10), options));
    expect([error, idsOf(pages)]).toEqual([null, records.map((record) => record.id)]);
  });

  it('a service that cuts every page differently is soon asked one page at a time', async () => {
    const records = numbered(300);
    const server = await slowListing((url) => {
      const offset = Number(url.searchParams.get('offset'));
      return { body: { data: records.slice(offset, offset + 3 + (offset % 7)) } };
    }, 1);
    const options = { ...latency(50), clock: steppingClock(1) };
    const { pages, error } = await collect(walkOver(server, pageProfile('offset', 3), options));
    expect([error, idsOf(pages)]).toEqual([null, records.map((record) => record.id)]);
    expect(server.requests.length).toBeLessThanOrEqual(pages.length + 3 * 12);
  });
});
