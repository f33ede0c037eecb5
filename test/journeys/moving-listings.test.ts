import { describe, expect, it } from 'vitest';
import { USUAL, type TestDatabase } from '../support/databases.ts';
import { sampled } from '../support/length.ts';
import { movingProfile, MovingListing, type ListingDialect } from '../support/moving-listing.ts';
import { ownService } from '../support/own-service.ts';

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

async function staged(database: TestDatabase, dialect: ListingDialect, { count = 40, size = 2, fields = {} } = {}) {
  const listing = new MovingListing(count, dialect);
  const stage = await ownService(database, { ...movingProfile(dialect, size), ...fields }, listing.respond);
  const missing = async (): Promise<number[]> => {
    const rows = await stage.read((db) =>
      db.prepare<[], { id: string; title: string }>('SELECT id, title FROM report').all(),
    );
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

describe.for([USUAL])('a listing by page numbers that moves while it is read, on $name', (database) => {
  it.for(sampled(BY_UPDATED, 3))(
    'has all its records in the copy when one moved to its end: %s',
    async ([, dialect]) => {
      const { listing, stage, missing } = await staged(database, dialect);
      once(listing, 11, () => listing.change(5));
      const { status } = await stage.run('backfill');
      expect([status, await missing()]).toEqual(['ok', []]);
    },
  );

  it.for(sampled(BY_ID, 3, 1))(
    'has all its records in the copy when one before was deleted: %s',
    async ([, dialect]) => {
      const { listing, stage, missing } = await staged(database, dialect);
      once(listing, 11, () => listing.remove(5));
      const { status } = await stage.run('backfill');
      expect([status, await missing()]).toEqual(['ok', []]);
    },
  );

  it.for<[string, ListingDialect]>([
    ['a filter', { style: 'page', order: 'newest', total: true, filter: true }],
    ['no filter', { style: 'page', order: 'newest', total: true }],
    ['no total', { style: 'offset', order: 'newest' }],
  ])('has all its records in the copy when one to come moved to its head: %s', async ([, dialect]) => {
    const { listing, stage, missing } = await staged(database, dialect);
    once(listing, 11, () => listing.change(3));
    const { status } = await stage.run('backfill');
    expect([status, await missing()]).toEqual(['ok', []]);
  });

  it('has all its records in the copy when one moved from the page before: two pages and a filter', async () => {
    const dialect = { style: 'link-pages', order: 'updated', filter: true } as const;
    const { listing, stage, missing } = await staged(database, dialect, { count: 14, size: 8 });
    once(listing, 2, () => listing.change(2));
    const { status } = await stage.run('backfill');
    expect([status, await missing()]).toEqual(['ok', []]);
  });

  it('shows by pages that overlap what no total shows: one deleted and one created at once', async () => {
    const dialect = { style: 'offset', order: 'id', total: true } as const;
    const { listing, stage, missing } = await staged(database, dialect, { count: 300, size: 20 });
    once(listing, 8, () => {
      listing.remove(7);
      listing.change(301);
    });
    const { status, resources } = await stage.run('backfill');
    expect(resources[0]?.error).toBeUndefined();
    expect([status, await missing()]).toEqual(['ok', []]);
  });

  it('has all changes in the copy when it moves during a walk of what changed', async () => {
    const dialect = { style: 'page', order: 'updated', total: true, filter: true } as const;
    const { listing, stage, missing } = await staged(database, dialect);
    await stage.run('backfill');
    for (let id = 1; id <= 30; id++) listing.change(id);
    once(listing, 8, () => listing.change(2));
    const { status } = await stage.run('sync');
    expect([status, await missing()]).toEqual(['ok', []]);
  });

  it.for(sampled([...BY_UPDATED, ...BY_ID], 4, 1))(
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

  it('counts a page once that is read again to prove its place', async () => {
    const { listing, stage } = await staged(database, { style: 'page', order: 'updated', total: true });
    for (const request of [4, 7]) {
      const stop = new AbortController();
      once(listing, request, () => stop.abort());
      await stage.run('backfill', { signal: stop.signal });
      const [rows, counted] = await stage.read((db) => [
        db.prepare('SELECT count(*) FROM report').pluck().get(),
        db.prepare('SELECT walk_records FROM _sync_checkpoints').pluck().get(),
      ]);
      expect([request, counted]).toEqual([request, rows]);
      expect(rows).toBeGreaterThan(0);
    }
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
    expect((await stage.run('backfill')).status).toBe('ok');
    listing.remove(7);
    expect([(await stage.run('backfill')).status, await live(7)]).toEqual(['partial', 1]);
  });
});

describe('a listing by page numbers in which nothing moves', () => {
  const CALM: [string, ListingDialect, number, number][] = [
    ['page numbers, a total', { style: 'page', order: 'id', total: true }, 2, 1.1],
    ['page numbers, a total', { style: 'page', order: 'id', total: true }, 50, 1.1],
    ['offsets, a total', { style: 'offset', order: 'id', total: true }, 2, 1.1],
    ['offsets, no total', { style: 'offset', order: 'id' }, 50, 1.1],
    ['offsets, a total', { style: 'offset', order: 'id', total: true }, 50, 1.1],
    ['links by page number, a total', { style: 'link-pages', order: 'id', total: true }, 50, 1.1],
    // Each page must be seen after the one behind it: nothing less shows that a record was deleted in between. Only where
    // the end is not known yet is anything asked for behind it.
    ['page numbers, no total', { style: 'page', order: 'id' }, 50, 2.14],
  ];

  it.for(sampled(CALM, 3))('costs few requests more than it has pages: %s', async ([, dialect, size, most]) => {
    const count = 30 * size;
    const { listing, stage, missing } = await staged(USUAL, dialect, { count, size });
    // Behind an end that nobody tells, as many are asked for as are under way: how many that is must not depend on the machine.
    const report = { path: '/report', ...movingProfile(dialect, size) };
    const resources = { content: null, images: null, analytics: null, report };
    stage.setProfile({ http: { concurrency: 4 }, resources });
    const { status } = await stage.run('backfill');
    expect([status, await missing()]).toEqual(['ok', []]);
    expect(listing.requests).toBeLessThanOrEqual((count / size) * most + 2);
  });
});
