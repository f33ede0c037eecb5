import { describe, expect, it, onTestFinished } from 'vitest';
import { openPageLoader, type PageLoader } from '../../src/load/page-loader.ts';
import type { LoadablePage } from '../../src/load/prepare-page.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { ownResources } from '../../src/state/owned-resource.ts';
import { DATABASES, warehouseOn, type TestDatabase } from '../support/databases.ts';
import { profilesFor, profileWith, recordsOf } from '../support/page-records.ts';

/** Loaders of one resource in one process, and how often rows were looked up. */
async function stageOn(database: TestDatabase) {
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
  const context = {
    warehouse: counted,
    owned,
    ...profilesFor(profileWith({ history: 'all' })),
    runId: 'run',
    clock: systemClock,
    signal: new AbortController().signal,
  };
  const open = (isFirstWalk: boolean): Promise<PageLoader> =>
    openPageLoader(context, { acceptsOlder: true }, { isFirstWalk });
  /** Loads a page as a walk does, and returns how often rows were looked up for it. */
  const walked = async (loader: PageLoader, page: LoadablePage): Promise<number> => {
    const before = lookups;
    loader.prepare(page);
    await loader.load(page, () => []);
    return lookups - before;
  };
  const standing = () => rows('SELECT id, n, _version FROM content ORDER BY 1');
  return { open, walked, standing };
}

function page(at: number, isNew: boolean, ...texts: string[]): LoadablePage {
  return { records: recordsOf(texts), requestedAt: at, isNew };
}

const row = (id: string, n: bigint, version: bigint) => ({ id, n, _version: version });

describe.for(DATABASES)('the first walk into an empty table, on $name', (database) => {
  it('looks nothing up for records that are new to it, and all others', async () => {
    const { open, walked, standing } = await stageOn(database);
    const walk = await open(true);
    // The first page makes the table grow.
    await walked(walk, page(1_000, true, '{"id":"0","n":0}'));
    expect(await walked(walk, page(2_000, true, '{"id":"1","n":1}', '{"id":"2","n":1}'))).toBe(0);
    const again = await walked(walk, page(3_000, false, '{"id":"1","n":2}', '{"id":"3","n":2}'));
    expect(again).toBeGreaterThan(0);
    expect(await walked(walk, page(4_000, true, '{"id":"4","n":3}'))).toBe(0);
    const rows = [row('0', 0n, 1n), row('1', 2n, 2n), row('2', 1n, 1n), row('3', 2n, 1n), row('4', 3n, 1n)];
    expect(await standing()).toEqual(rows);
  });

  it('looks up all once somebody else has had a turn', async () => {
    const { open, walked, standing } = await stageOn(database);
    const [walk, refetch] = [await open(true), await open(false)];
    await walked(walk, page(1_000, true, '{"id":"0","n":0}'));
    const next = page(3_000, true, '{"id":"1","n":2}');
    walk.prepare(next);
    const turns = [refetch.load(page(2_000, true, '{"id":"1","n":1}'), () => []), walk.load(next, () => [])];
    expect(await Promise.all(turns)).toMatchObject([{ inserted: 1 }, { updated: 1 }]);
    expect(await walked(walk, page(4_000, true, '{"id":"2","n":3}'))).toBe(1);
    expect(await standing()).toEqual([row('0', 0n, 1n), row('1', 2n, 2n), row('2', 3n, 1n)]);
  });

  it('looks up all where rows are there already, or it is not the first', async () => {
    const { open, walked, standing } = await stageOn(database);
    const later = await open(false);
    await walked(later, page(1_000, true, '{"id":"0","n":0}'));
    expect(await walked(later, page(2_000, true, '{"id":"1","n":1}'))).toBe(1);
    const again = await open(true);
    expect(await walked(again, page(3_000, true, '{"id":"1","n":2}'))).toBe(1);
    expect(await standing()).toEqual([row('0', 0n, 1n), row('1', 2n, 2n)]);
  });
});
