import { availableParallelism } from 'node:os';
import { describe, expect, it } from 'vitest';
import type { WalkEnd } from '../../../src/extract/guards/walk-end.ts';
import type { Page } from '../../../src/extract/page.ts';
import { keyFingerprints } from '../../../src/shape/records/key-fingerprint.ts';
import { joinedPage, smallPages } from '../../../src/sync/walk/joined-page.ts';
import { differences } from '../../support/compare-copy.ts';
import { DATABASES, SQLITE, type TestDatabase } from '../../support/databases.ts';
import { journey, type Journey } from '../../support/journey.ts';

/** A page in the middle of a listing with these ids. */
function pageOf(number: number, ids: readonly string[], changed: Partial<Page> = {}): Page {
  const records = ids.map((id) => ({ value: { id }, bytes: Buffer.from(JSON.stringify({ id })) }));
  const place = {
    number,
    position: `p${number}`,
    next: `p${number + 1}`,
    requestedAt: 1_000 - number,
    serverDate: number,
  };
  const plain = { again: 0, total: 900 - number, isNumbered: true, kept: 2, completesParts: true, end: null };
  return {
    ...place,
    ...plain,
    records,
    keys: keyFingerprints(ids),
    release: () => undefined,
    discard: () => undefined,
    ...changed,
  };
}

const ids = (from: number, count: number): string[] => Array.from({ length: count }, (_, at) => `r${from + at}`);
const END: WalkEnd = {
  proof: null,
  records: 0,
  doubts: [],
  prints: '',
  shortfall: null,
  met: () => false,
  pageSize: null,
  settleMs: 0,
};

describe('pages that are committed together', () => {
  it('are small, neither the first nor the last, and share no record', () => {
    const small = smallPages(8);
    const [second, third] = [pageOf(2, ids(0, 200)), pageOf(3, ids(200, 200))];
    expect(small.joins([second], third)).toBe(true);
    expect(small.hasRoom([second])).toBe(true);
    expect(small.hasRoom([second, third])).toBe(false);
    const four = [2, 3, 4, 5].map((number) => pageOf(number, ids(number, 1)));
    expect(small.hasRoom(four.slice(1))).toBe(true);
    expect(small.hasRoom(four)).toBe(false);
    const refused: [Page, Page][] = [
      [pageOf(1, ids(0, 2)), third],
      [second, pageOf(3, ids(200, 301))],
      [second, pageOf(3, ['r199', 'r200'])],
      [second, pageOf(3, ['r300'], { again: 1 })],
      [second, pageOf(3, ['r300'], { next: null, end: END })],
      [second, pageOf(3, ['r300'], { records: [{ value: {}, bytes: Buffer.alloc(2 ** 20) }] })],
    ];
    for (const [before, next] of refused) expect(small.joins([before], next)).toBe(false);
  });

  it('are half as many as the requests that may be under way', () => {
    const pages = [2, 3, 4].map((number) => pageOf(number, ids(number, 1)));
    expect(smallPages(6).hasRoom(pages)).toBe(false);
    expect(smallPages(6).hasRoom(pages.slice(1))).toBe(true);
    expect(smallPages(2).hasRoom(pages.slice(2))).toBe(false);
    expect(smallPages(1).hasRoom(pages.slice(2))).toBe(false);
  });

  it('are new to the walk if all of them are', () => {
    const [second, third] = [pageOf(2, ['a'], { isNew: true }), pageOf(3, ['b'], { isNew: true })];
    expect(joinedPage([second, third]).isNew).toBe(true);
    expect(joinedPage([second, pageOf(4, ['c'])]).isNew).toBe(false);
  });

  it('are one with the place behind the last of them, and as old as the oldest', () => {
    const parts = [pageOf(2, ['a', 'b']), pageOf(3, ['c', 'd'])];
    const { records, ...page } = joinedPage(parts);
    expect(page).toMatchObject({ number: 3, position: 'p2', next: 'p4', requestedAt: 997, serverDate: 2, total: 897 });
    expect(records.map(({ value }) => value)).toEqual([{ id: 'a' }, { id: 'b' }, { id: 'c' }, { id: 'd' }]);
    expect(Buffer.from(page.keys)).toEqual(keyFingerprints(['a', 'b', 'c', 'd']));
  });
});

const PROFILE = { resources: { content: { page: { size: 10 } }, images: null, analytics: null } };
const SANDBOX = { generate: { content: 600 }, pagination: 'page' } as const;

/** One row for each page that is remembered, and what the checkpoint says. */
function place(stage: Journey): Promise<Record<string, number>> {
  const query = `SELECT walk_pages, walk_records, (SELECT count(*) FROM content) AS rows,
    (SELECT count(DISTINCT position) FROM _sync_seen) AS seen, (SELECT max(page) FROM _sync_seen) AS last,
    (SELECT max(length(ids)) FROM _sync_seen) AS bytes FROM _sync_checkpoints`;
  return stage.read((db) => db.prepare<[], Record<string, number>>(query).get() ?? {});
}

/** On one core SQLite writes in the thread that reads: no page waits for it. */
const mayJoin = (database: TestDatabase): boolean => database !== SQLITE || availableParallelism() > 1;

describe.for(DATABASES)('small pages on $name', (database) => {
  it('that wait for the warehouse are committed together, and a walk goes on behind the last of them', async () => {
    const stage = await journey({ database, sandbox: SANDBOX, base: 'content-service-page', profile: PROFILE });
    const stop = new AbortController();
    const sizes: number[] = [];
    const watcher = {
      page: (_: string, { records }: Page, { pages }: { pages: number }) => {
        sizes.push(records.length);
        if (pages >= 30) stop.abort();
      },
    };
    await stage.run('backfill', { signal: stop.signal, watcher }).catch(() => undefined);
    expect(Math.max(...sizes) > 10).toBe(mayJoin(database));
    const { walk_pages = 0, ...stored } = await place(stage);
    const records = walk_pages * 10;
    expect(stored).toEqual({ walk_records: records, rows: records, seen: walk_pages, last: walk_pages - 1, bytes: 80 });
    expect(walk_pages).toBeLessThan(60);

    const before = stage.sandbox.requests.total;
    const { status, resources } = await stage.run('backfill', { watcher });
    expect([status, resources[0]?.inserted]).toEqual(['ok', 600 - records]);
    expect(stage.sandbox.requests.total - before).toBeLessThan(60);
    expect(await stage.read((db) => differences(db, stage.sandbox.store, { resources: ['content'] }))).toEqual([]);
  });
});
