import { describe, expect, it } from 'vitest';
import { AddressCache, type CacheHabits } from '../support/address-cache.ts';
import type { Reply, Responder } from '../extract/listing-server.ts';
import { USUAL, type TestDatabase } from '../support/databases.ts';
import { movingProfile, MovingListing, type ListingDialect } from '../support/moving-listing.ts';
import { ownService } from '../support/own-service.ts';
import { WorldClock } from '../support/world/world-clock.ts';

const SIZE = 5;
const COUNT = 30;
const KEPT = 60_000;

/** A listing behind a cache that somebody else has filled in part: from before a record was deleted and one created. */
async function staged(
  database: TestDatabase,
  dialect: ListingDialect,
  habits: CacheHabits,
  fields: Record<string, unknown> = {},
) {
  const clock = new WorldClock(new Date().toISOString(), database.name === 'postgres' ? 50 : 0);
  const listing = new MovingListing(COUNT, dialect);
  const cache = new AddressCache<Reply>(habits, () => clock.now());
  const respond: Responder = (url, count, asked) => {
    const cacheControl = asked?.headers['cache-control'];
    return cache.answer({ key: url.href, cacheControl }, () => listing.respond(url, count));
  };
  const stage = await ownService(database, { ...movingProfile(dialect, SIZE), ...fields }, respond);
  const missing = async (): Promise<number[]> => {
    const rows = await stage.read((db) =>
      db.prepare<[], { id: string }>('SELECT id FROM report WHERE _deleted_at IS NULL').all(),
    );
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
const HEEDS = { ms: KEPT, tells: 'nothing', isHeeding: true } as const;
const TELLS_AGE = { ms: KEPT, tells: 'age', isHeeding: false } as const;
const TELLS_ALL = { ms: KEPT, tells: 'age and lifetime', isHeeding: false } as const;
const FIRST_PAGE = `/v1/report?page=1&limit=${SIZE}`;

describe.for([USUAL])('a listing behind a cache by address, on $name', (database) => {
  it.for(DIALECTS)('is asked for past one that heeds that: %s', async ([, dialect]) => {
    const { missing, run, fill } = await staged(database, dialect, HEEDS);
    await fill();
    expect((await run('backfill')).status).toBe('ok');
    expect(await missing()).toEqual([]);
  });

  it.for(DIALECTS)('is read again once the cache asks anew, where it says when: %s', async ([, dialect]) => {
    const { missing, run, fill, clock } = await staged(database, dialect, TELLS_ALL);
    await fill();
    const before = clock.now();
    expect((await run('backfill')).status).toBe('ok');
    expect(await missing()).toEqual([]);
    expect(clock.now() - before).toBeGreaterThanOrEqual(KEPT);
  });

  it('is compared with pages of another moment, where pages tell no total', async () => {
    const { listing, missing, run, move } = await staged(database, BY_PAGE, TELLS_ALL);
    listing.before = (request) => {
      if (request === 4) move();
    };
    expect((await run('backfill')).status).toBe('ok');
    expect(await missing()).toEqual([]);
  });

  it.for(DIALECTS)('is not called whole where it only says how old its pages are: %s', async ([, dialect]) => {
    const { missing, run, fill, clock } = await staged(database, dialect, TELLS_AGE);
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
      const kept = { ms: 100 * KEPT, tells: 'age', isHeeding: false } as const;
      const { missing, run, visit, clock } = await staged(database, dialect, kept, { accept: ['cache'] });
      await visit(FIRST_PAGE);
      clock.push(KEPT);
      const report = await run('backfill');
      expect(report.status).toBe('ok');
      expect(report.resources[0]?.warnings).toContainEqual(expect.objectContaining({ code: 'pages_cached' }));
      expect(await missing()).toEqual([]);
    },
  );

  it('does not move its cursor by a page that is older than the filter asks for again', async () => {
    const dialect = { style: 'page', order: 'updated', filter: true, total: true } as const;
    const { listing, missing, run, visit, clock, stage } = await staged(database, dialect, TELLS_AGE);
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
