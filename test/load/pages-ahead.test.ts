import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../src/observe/system-clock.ts';
import { ownResources } from '../../src/state/owned-resource.ts';
import { openPageLoader, type PageLoader } from '../../src/load/page-loader.ts';
import type { LoadablePage } from '../../src/load/prepare-page.ts';
import { DATABASES, warehouseOn, type TestDatabase } from '../support/databases.ts';
import { profilesFor, profileWith, recordsOf } from '../support/page-records.ts';

/** Two loaders of one resource in one process, as a walk and a re-fetch have them. */
async function twoLoaders(database: TestDatabase) {
  const { warehouse, rows } = await warehouseOn(database);
  const owned = await ownResources(warehouse, systemClock).acquire('content');
  onTestFinished(() => owned.release());
  let lookups = 0;
  const counted: typeof warehouse = {
    ...warehouse,
    stored: (...asked) => {
      lookups += 1;
      return warehouse.stored(...asked);
    },
  };
  const open = (): Promise<PageLoader> =>
    openPageLoader(
      {
        warehouse: counted,
        owned,
        ...profilesFor(profileWith({ history: 'all' })),
        runId: 'run',
        clock: systemClock,
        signal: new AbortController().signal,
      },
      { acceptsOlder: true },
    );
  const standing = () =>
    rows(
      'SELECT c.id, c.n, c._version, v.body FROM content c JOIN _sync_versions v ON v.id = c.id AND v.version = c._version ORDER BY 1',
    );
  return { walk: await open(), refetch: await open(), standing, lookups: () => lookups };
}

function page(at: number, ...texts: string[]): LoadablePage {
  return { records: recordsOf(texts), requestedAt: at };
}

const load = (loader: PageLoader, of: LoadablePage) => loader.load(of, () => []);

describe.for(DATABASES)('a page that is understood while the one before is written, on $name', (database) => {
  it('is looked up once if nobody else has written meanwhile', async () => {
    const { walk, standing, lookups } = await twoLoaders(database);
    await load(walk, page(1_000, '{"id":"0","n":0}'));
    const [first, second] = [page(2_000, '{"id":"1","n":1}'), page(3_000, '{"id":"2","n":2}')];
    const before = lookups();
    const writing = load(walk, first);
    walk.prepare(second);
    await writing;
    expect(await load(walk, second)).toMatchObject({ inserted: 1 });
    expect(lookups() - before).toBe(2);
    expect((await standing()).map(({ id }) => id)).toEqual(['0', '1', '2']);
  });

  it('knows what the page before has written of the same records', async () => {
    const { walk, standing } = await twoLoaders(database);
    await load(walk, page(1_000, '{"id":"0","n":0}'));
    const second = page(3_000, '{"id":"1","n":2}', '{"id":"2","n":2}');
    const writing = load(walk, page(2_000, '{"id":"1","n":1}'));
    walk.prepare(second);
    await writing;
    expect(await load(walk, second)).toMatchObject({ inserted: 1, updated: 1 });
    expect((await standing()).slice(1)).toEqual([
      { id: '1', n: 2n, _version: 2n, body: '{"id":"1","n":2}' },
      { id: '2', n: 2n, _version: 1n, body: '{"id":"2","n":2}' },
    ]);
  });

  it('knows what somebody else has written in between', async () => {
    const { walk, refetch, standing } = await twoLoaders(database);
    await load(walk, page(1_000, '{"id":"1","n":1}'));
    const second = page(5_000, '{"id":"1","n":3}');
    walk.prepare(second);
    const turns = [load(refetch, page(4_000, '{"id":"1","n":2}')), load(walk, second)];
    expect(await Promise.all(turns)).toMatchObject([{ updated: 1 }, { updated: 1 }]);
    expect(await standing()).toEqual([{ id: '1', n: 3n, _version: 3n, body: '{"id":"1","n":3}' }]);
  });

  it('fits the tables as the page before has made them grow', async () => {
    const { walk, standing } = await twoLoaders(database);
    await load(walk, page(1_000, '{"id":"0","n":0}'));
    const second = page(3_000, '{"id":"2","n":2,"more":"b"}');
    const writing = load(walk, page(2_000, '{"id":"1","n":1,"more":1}'));
    walk.prepare(second);
    await writing;
    expect(await load(walk, second)).toMatchObject({ inserted: 1, rejected: 0 });
    expect(await standing()).toHaveLength(3);
  });

  it('says when it is loaded what is wrong with it', async () => {
    const { walk } = await twoLoaders(database);
    const strange: LoadablePage = { records: recordsOf(['{"id":"1"}']), requestedAt: Number.NaN };
    walk.prepare(strange);
    await expect(load(walk, strange)).rejects.toThrow(RangeError);
  });
});
