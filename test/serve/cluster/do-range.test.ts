import { describe, expect, it, onTestFinished } from 'vitest';
import type { App } from '../../../src/app.ts';
import { systemClock } from '../../../src/observe/system-clock.ts';
import { doRange } from '../../../src/serve/cluster/do-range.ts';
import type { WorkEnd } from '../../../src/serve/work-items/work-items.ts';
import type { RangeCrew } from '../../../src/sync/ranges/crew.ts';
import { startListing } from '../../extract/listing-server.ts';
import { differences } from '../../support/compare-copy.ts';
import { POSTGRES } from '../../support/databases.ts';
import { journey, type Journey } from '../../support/journey.ts';
import { MovingListing } from '../../support/moving-listing.ts';

const PAGE = 10;
const SILENT = { started: () => undefined, page: () => undefined, ended: () => undefined };
const { signal } = new AbortController();

/** A numbered listing in the order of its ids, and two processes' apps on one database. */
async function stageOf(records: number) {
  const listing = new MovingListing(records, { style: 'page', order: 'id', total: true });
  const service = await startListing((...asked) => listing.respond(...asked));
  service.delay = 15;
  const page = { style: 'page', size: PAGE, size_param: 'limit', total: 'total' };
  const report = { path: '/report', item: '/report/{id}', incremental: null, page };
  const stage = await journey({
    database: POSTGRES,
    profile: { resources: { content: null, images: null, analytics: null, report } },
    source: { base_url: service.url.href },
  });
  const open = async (): Promise<App> => {
    const app = await stage.open();
    onTestFinished(() => app.close());
    return app;
  };
  return { stage, listing, service, leader: await open(), other: await open() };
}

const expected = () => ({ after: null, isDelete: false });
const rangeOf = (range: number) => ({ kind: 'range', source: 'blog', resource: 'report', range }) as const;

function isCopied(stage: Journey, { items }: MovingListing): Promise<unknown[]> {
  const list = () => Array.from(items.values(), (item) => ({ id: String(item.id), text: JSON.stringify(item) }));
  return stage.read((db) => differences(db, { resources: () => ['report'], list }));
}

describe.skipIf(POSTGRES.missing !== null)('a range that a process is asked to walk', () => {
  it('is nothing to do where nobody leads the walk', async () => {
    const { service, other } = await stageOf(20);
    expect(await doRange({ app: other, clock: systemClock }, rangeOf(0), signal)).toEqual({ is: 'done', result: null });
    expect(service.requests.length).toBe(0);
  });

  it('becomes rows beside the other ranges and beside records that are read again because of webhooks', async () => {
    const { stage, listing, leader, other } = await stageOf(400);
    const ends = new Map<number, Promise<WorkEnd<null>>>();
    const offered = Promise.withResolvers<void>();
    const crew: RangeCrew = {
      leastPages: 4,
      hands: () => Promise.resolve(2),
      offer: (_, ranges) => {
        for (const range of ranges.filter((one) => !ends.has(one))) {
          const app = range % 2 === 0 ? leader : other;
          ends.set(range, doRange({ app, clock: systemClock }, rangeOf(range), signal));
        }
        offered.resolve();
        return Promise.resolve();
      },
    };
    const asked = {
      command: 'backfill',
      resources: ['report'],
      restart: false,
      signal,
      watcher: SILENT,
      crew,
    } as const;
    const run = leader.sync(asked);
    await offered.promise;
    // Records of every page, some before their page is read and some while it is being written.
    const outcomes: string[] = [];
    for (let id = 1; id <= 400; id += 7) {
      listing.change(id);
      outcomes.push(await leader.refetch({ resource: 'report', key: String(id), expected, signal }));
    }
    const { status, resources } = await run;
    expect([status, resources[0]?.warnings ?? []]).toEqual(['ok', []]);
    expect(new Set(outcomes).isSubsetOf(new Set(['loaded', 'unchanged']))).toBe(true);
    expect(ends.size).toBeGreaterThan(3);
    expect((await Promise.all(ends.values())).map((end) => end.is)).toEqual(Array(ends.size).fill('done'));
    expect(await isCopied(stage, listing)).toEqual([]);
    const twice =
      'SELECT count(*) FROM (SELECT 1 FROM _sync_versions WHERE valid_to IS NULL GROUP BY id HAVING count(*) > 1)';
    expect(await stage.read((db) => db.prepare(twice).pluck().get())).toBe(0);
  });
});
