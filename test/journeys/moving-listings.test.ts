import { describe, expect, it } from 'vitest';
import type { Reply, Responder } from '../pagination/listing-server.ts';
import { type TestDatabase, USUAL } from '../support/databases.ts';
import { sampled } from '../support/length.ts';
import { ownService } from '../support/own-service.ts';
import { WorldClock } from '../support/world/world-clock.ts';

interface Item {
  id: number;
  title: string;
  updated_at: string;
}

interface ListingDialect {
  style: 'page' | 'offset' | 'link-pages';
  order: 'id' | 'updated' | 'newest';
  total?: boolean;
  /** True where `updated_since` lists what changed at or after a moment. */
  filter?: boolean;
  /** True where a page behind the last one is refused. */
  refuses?: boolean;
}

/** Changes are of now, as those of any service are. */
const DAY = Date.now() - 86_400_000;
const ORDERS: Readonly<Record<ListingDialect['order'], (a: Item, b: Item) => number>> = {
  id: (a, b) => a.id - b.id,
  updated: (a, b) => a.updated_at.localeCompare(b.updated_at) || a.id - b.id,
  newest: (a, b) => b.updated_at.localeCompare(a.updated_at) || b.id - a.id,
};

/** A service whose records are cut into pages by number, and change while somebody reads them. */
class MovingListing {
  readonly items = new Map<number, Item>();
  /** Called before each listing request with its number, from 1 on. */
  before: (request: number) => void = () => undefined;
  /** Called before each request of a page with the number of that page, if it names one. */
  asked: (page: number) => void = () => undefined;
  requests = 0;
  #now = DAY + 86_400_000;
  readonly #dialect: ListingDialect;

  constructor(count: number, dialect: ListingDialect) {
    this.#dialect = dialect;
    for (let id = 1; id <= count; id++) this.#put(id, `title ${id}`, DAY + id * 60_000);
  }

  /** A change now; the service's own time goes on by a minute with each. */
  change(id: number): void {
    this.#put(id, `changed ${(this.#now += 60_000)}`, this.#now);
  }

  remove(id: number): void {
    this.items.delete(id);
  }

  #put(id: number, title: string, at: number): void {
    this.items.set(id, { id, title, updated_at: new Date(at).toISOString() });
  }

  readonly respond: Responder = (url) => {
    const id = /\/report\/(\d+)$/.exec(url.pathname)?.[1];
    if (id !== undefined) {
      const item = this.items.get(Number(id));
      return item === undefined ? { status: 404, body: {} } : { body: item };
    }
    this.before((this.requests += 1));
    this.asked(Number(url.searchParams.get('page')));
    return this.#page(url);
  };

  #page(url: URL): Reply {
    const { style, order, total, filter, refuses } = this.#dialect;
    const since = filter ? (url.searchParams.get('updated_since') ?? '') : '';
    const all = [...this.items.values()].filter((item) => item.updated_at >= since).toSorted(ORDERS[order]);
    const size = Number(url.searchParams.get('limit'));
    const page = Number(url.searchParams.get('page') ?? 1);
    const start = style === 'offset' ? Number(url.searchParams.get('offset')) : Math.max(0, page - 1) * size;
    if (refuses && start > 0 && start >= all.length) return { status: 400, body: {} };
    const body = { data: all.slice(start, start + size), ...(total ? { total: all.length } : {}) };
    if (style !== 'link-pages' || start + size >= all.length) return { body };
    const next = new URL(url);
    next.searchParams.set('page', String(page + 1));
    return { body, headers: { link: `<${next.href}>; rel="next"` } };
  }
}

/** The profile of such a service. */
function movingProfile({ style, total, filter }: ListingDialect, size: number): Record<string, unknown> {
  const page = { style: style === 'link-pages' ? 'link' : style, size, ...(total ? { total: 'total' } : {}) };
  return { page, item: '/report/{id}', incremental: filter ? { param: 'updated_since', lookback: '1s' } : null };
}

type Dialects = readonly [name: string, dialect: ListingDialect][];

const BY_UPDATED: Dialects = [
  ['page numbers, a total', { style: 'page', order: 'updated', total: true }],
  ['page numbers, no total', { style: 'page', order: 'updated' }],
  ['page numbers, a total, a filter', { style: 'page', order: 'updated', total: true, filter: true }],
  ['offsets, a total', { style: 'offset', order: 'updated', total: true }],
  ['offsets, no total, a filter', { style: 'offset', order: 'updated', filter: true }],
  ['links by page number', { style: 'link-pages', order: 'updated' }],
];

const BY_ID: Dialects = [
  ['page numbers, a total', { style: 'page', order: 'id', total: true }],
  ['page numbers, no total', { style: 'page', order: 'id' }],
  ['offsets, a total', { style: 'offset', order: 'id', total: true }],
  ['offsets, no total', { style: 'offset', order: 'id' }],
  ['offsets, a total, a filter', { style: 'offset', order: 'id', total: true, filter: true }],
  ['links by page number, a total', { style: 'link-pages', order: 'id', total: true }],
  ['links by page number', { style: 'link-pages', order: 'id' }],
];

const BY_NEWEST: Dialects = [
  ['a filter', { style: 'page', order: 'newest', total: true, filter: true }],
  ['no filter', { style: 'page', order: 'newest', total: true }],
  ['no total', { style: 'offset', order: 'newest' }],
];

async function staged(database: TestDatabase, dialect: ListingDialect, { count = 40, size = 2, fields = {} } = {}) {
  const listing = new MovingListing(count, dialect);
  const stage = await ownService(database, { ...movingProfile(dialect, size), ...fields }, listing.respond);
  const missing = async (): Promise<number[]> => {
    const rows = await stage.all<{ id: string; title: string }>('SELECT id, title FROM report');
    const copied = new Map(rows.map(({ id, title }) => [id, title]));
    const all = [...listing.items.values()];
    return all.filter(({ id, title }) => copied.get(String(id)) !== title).map(({ id }) => id);
  };
  const live = async (id: number): Promise<unknown> =>
    await stage.read((db) =>
      db.prepare('SELECT count(*) FROM report WHERE id = ? AND _deleted_at IS NULL').pluck().get(String(id)),
    );
  return { listing, stage, missing, live };
}

/** Runs `change` once, before the request with this number. */
function once(listing: MovingListing, request: number, change: () => void): void {
  const at = listing.requests + request;
  listing.before = (number) => {
    if (number === at) change();
  };
}

const moves = (what: string, dialects: Dialects, move: (listing: MovingListing) => void, at = 11, options = {}) =>
  dialects.map(([name, dialect]) => ({ what: `${what}: ${name}`, dialect, move, at, options }));

describe.for([USUAL])('a listing by page numbers that moves while it is read, on $name', (database) => {
  it.for([
    ...moves('F046 one moved to its end', sampled(BY_UPDATED, 4), (listing) => listing.change(5)),
    ...moves('one before was deleted', sampled(BY_ID, 3, 1), (listing) => listing.remove(5)),
    ...moves('one to come moved to its head', BY_NEWEST, (listing) => listing.change(3)),
    ...moves('F044 one is created at its head', BY_NEWEST.slice(0, 1), (listing) => listing.change(41)),
    ...moves(
      'one moved from the page before',
      [['two pages and a filter', { style: 'link-pages', order: 'updated', filter: true }]],
      (listing) => listing.change(2),
      2,
      { count: 14, size: 8 },
    ),
    ...moves(
      'one was deleted and one created at once, which no total shows',
      [['pages that overlap', { style: 'offset', order: 'id', total: true }]],
      (listing) => {
        listing.remove(7);
        listing.change(301);
      },
      8,
      { count: 300, size: 20 },
    ),
  ])('has all its records in the copy when $what', async ({ dialect, move, at, options }) => {
    const { listing, stage, missing } = await staged(database, dialect, options);
    once(listing, at, () => move(listing));
    const { status } = await stage.run('backfill');
    expect([status, await missing()]).toEqual(['ok', []]);
  });

  it.for(sampled([...BY_UPDATED, ...BY_ID], 6, 1))(
    'proves its place when it is taken up again: %s, %o',
    async ([, dialect]) => {
      const { listing, stage, missing } = await staged(database, dialect);
      const stop = new AbortController();
      once(listing, 11, () => stop.abort());
      await stage.run('backfill', { signal: stop.signal });
      for (const id of [2, 4, 6]) listing.remove(id);
      listing.change(1);
      const { status } = await stage.run('backfill');
      expect([status, await missing()]).toEqual(['ok', []]);
    },
  );

  it.for<[string, ListingDialect]>([
    ['refused', { style: 'page', order: 'id', total: true, refuses: true }],
    ['empty', { style: 'page', order: 'id', total: true }],
  ])('does not take records that are gone for those that it has not met: past the end is %s', async ([, dialect]) => {
    const { listing, stage, missing } = await staged(database, dialect, { count: 33, size: 5 });
    const stop = new AbortController();
    once(listing, 3, () => stop.abort());
    await stage.run('backfill', { signal: stop.signal });
    for (const id of [1, 2]) listing.remove(id);
    let isOver = false;
    listing.asked = (page) => {
      // What is left of the last page comes onto the one before it.
      if (page === 7 && !isOver) isOver = listing.items.delete(16);
    };
    const { status } = await stage.run('backfill');
    expect([status, isOver, await missing()]).toEqual(['ok', true, []]);
  });

  it('ends partial, with what to do, where it never stands still and no record can be fetched alone', async () => {
    const dialect: ListingDialect = { style: 'page', order: 'updated', total: true };
    const { listing, stage } = await staged(database, dialect, { fields: { item: null } });
    listing.before = (number) => {
      if (number % 3 === 0) listing.change(1 + (number % 40));
    };
    const { status, resources } = await stage.run('backfill');
    expect(status).toBe('partial');
    expect(resources[0]?.warnings).toMatchObject([
      { code: 'total_not_reached', hint: expect.stringContaining('add the id to it') },
    ]);
    listing.before = () => undefined;
    expect((await stage.run('sync')).status).toBe('ok');
  });

  it('is not ok while a deleted record is live, although the scan has what the service counts', async () => {
    const { listing, stage, live } = await staged(database, {
      style: 'page',
      order: 'updated',
      total: true,
      filter: true,
    });
    await stage.run('backfill');
    listing.remove(7);
    listing.before = (number) => {
      if (number % 3 === 0) listing.change(8 + (number % 30));
    };
    expect([(await stage.run('backfill')).status, await live(7)]).toEqual(['partial', 1]);
    listing.before = () => undefined;
    expect([(await stage.run('backfill')).status, await live(7)]).toEqual(['ok', 0]);
  });

  it('is not ok while a deleted record is live, although the filter would list what moved: page 0 is page 1', async () => {
    const dialect: ListingDialect = { style: 'page', order: 'id', filter: true };
    const fields = { page: { style: 'page', first: 0, size: 2 } };
    const { listing, stage, live } = await staged(database, dialect, { fields });
    // Each scan sees the same records twice: as in a listing whose order differs from page to page, one may be missing.
    expect((await stage.run('backfill')).status).toBe('partial');
    listing.remove(7);
    expect([(await stage.run('backfill')).status, await live(7)]).toEqual(['partial', 1]);
  });
});

const SIZE = 5;
const COUNT = 30;
const KEPT = 60_000;

/** What a cache in front of a service does. */
interface CacheHabits {
  /** How long it keeps an answer, in milliseconds. */
  ms: number;
  /** Whether it says how old an answer is that it has kept. */
  tellsAge: boolean;
  /** Whether it lets requests through that say `no-cache`. */
  isHeeding: boolean;
}

/** A cache that keeps successes by their address, as those in front of many services do; `now` in epoch milliseconds. */
function addressCache({ ms, tellsAge, isHeeding }: CacheHabits, now: () => number) {
  const kept = new Map<string, { answer: Reply; at: number }>();
  return (address: string, cacheControl: string | undefined, make: () => Reply): Reply => {
    const before = kept.get(address);
    const ageMs = now() - (before?.at ?? -Infinity);
    const isRefused = isHeeding && /no-cache|no-store/.test(cacheControl ?? '');
    if (before === undefined || ageMs >= ms || isRefused) {
      const answer = make();
      if ((answer.status ?? 200) === 200) kept.set(address, { answer, at: now() });
      return answer;
    }
    const age = tellsAge ? { age: String(Math.floor(ageMs / 1_000)) } : {};
    return { ...before.answer, headers: { ...before.answer.headers, ...age } };
  };
}

/** A listing behind a cache that somebody else has filled in part: from before a record was deleted and one created. */
async function cachedStage(
  database: TestDatabase,
  dialect: ListingDialect,
  habits: CacheHabits,
  fields: Record<string, unknown> = {},
) {
  const clock = new WorldClock(new Date().toISOString(), database.name === 'postgres' ? 50 : 0);
  const listing = new MovingListing(COUNT, dialect);
  const cache = addressCache(habits, () => clock.now());
  const respond: Responder = (url, count, asked) => {
    return cache(url.href, asked?.headers['cache-control'], () => listing.respond(url, count));
  };
  const stage = await ownService(database, { ...movingProfile(dialect, SIZE), ...fields }, respond);
  const missing = async (): Promise<number[]> => {
    const rows = await stage.all<{ id: string }>('SELECT id FROM report WHERE _deleted_at IS NULL');
    const copied = new Set(rows.map(({ id }) => id));
    return [...listing.items.keys()].filter((id) => !copied.has(String(id)));
  };
  const run = (command: 'backfill' | 'sync') => stage.run(command, { clock });
  const move = (): void => {
    listing.remove(3);
    listing.change(COUNT + 1);
  };
  const visit = async (path: string): Promise<void> => {
    await (await fetch(new URL(path, stage.service.url))).text();
  };
  /** The first page is kept from before one record was deleted and another one created. */
  const fill = async (): Promise<void> => {
    await visit(FIRST_PAGE);
    move();
    clock.push(KEPT / 2);
  };
  return { listing, stage, clock, missing, run, move, visit, fill };
}

const BY_PAGE = { style: 'page', order: 'id' } as const;
const DIALECTS: [string, ListingDialect][] = [
  ['no total', BY_PAGE],
  ['a total', { ...BY_PAGE, total: true }],
];
const HEEDS = { ms: KEPT, tellsAge: false, isHeeding: true } as const;
const TELLS_AGE = { ms: KEPT, tellsAge: true, isHeeding: false } as const;
const FIRST_PAGE = `/v1/report?page=1&limit=${SIZE}`;

describe.for([USUAL])('a listing behind a cache by address, on $name', (database) => {
  it.for(DIALECTS)('is asked for past one that heeds that: %s', async ([, dialect]) => {
    const { missing, run, fill } = await cachedStage(database, dialect, HEEDS);
    await fill();
    expect((await run('backfill')).status).toBe('ok');
    expect(await missing()).toEqual([]);
  });

  it.for(DIALECTS)('is not called whole where it only says how old its pages are: %s', async ([, dialect]) => {
    const { missing, run, fill, clock } = await cachedStage(database, dialect, TELLS_AGE);
    await fill();
    const report = await run('backfill');
    expect(report.status).toBe('partial');
    expect(report.resources[0]?.warnings).toContainEqual(
      expect.objectContaining({ code: 'pages_cached', hint: expect.stringContaining('accept: [cache]') }),
    );
    clock.push(10 * KEPT);
    await run('backfill');
    clock.push(10 * KEPT);
    expect(await missing()).toEqual([]);
  });

  it.for(DIALECTS)(
    'is whole where the cache is emptied whenever something changes, as the profile says: %s',
    async ([, dialect]) => {
      const kept = { ms: 100 * KEPT, tellsAge: true, isHeeding: false } as const;
      const { missing, run, visit, clock } = await cachedStage(database, dialect, kept, { accept: ['cache'] });
      await visit(FIRST_PAGE);
      clock.push(KEPT);
      const report = await run('backfill');
      expect(report.status).toBe('ok');
      // A scan that was repeated has found pages of one moment, and has nothing to warn of.
      const { records, warnings = [] } = report.resources[0] ?? {};
      expect(records === COUNT && !warnings.some(({ code }) => code === 'pages_cached')).toBe(false);
      expect(await missing()).toEqual([]);
    },
  );

  it('does not move its cursor by a page that is older than the filter asks for again', async () => {
    const dialect = { style: 'page', order: 'updated', filter: true, total: true } as const;
    const { listing, missing, run, visit, clock, stage } = await cachedStage(database, dialect, TELLS_AGE);
    expect((await run('backfill')).status).toBe('ok');
    clock.push(10 * KEPT);
    const asked = stage.service.requests.length;
    await run('sync');
    const path = stage.service.requests.slice(asked).find((request) => request.includes('updated_since')) ?? '';
    clock.push(10 * KEPT);
    await visit(path);
    listing.change(COUNT + 1);
    clock.push(KEPT / 2);
    const report = await run('sync');
    expect(report.status).toBe('partial');
    expect(report.resources[0]?.warnings).toContainEqual(expect.objectContaining({ code: 'pages_cached' }));
    clock.push(10 * KEPT);
    expect((await run('sync')).status).toBe('ok');
    expect(await missing()).toEqual([]);
  });
});
