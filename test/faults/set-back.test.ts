import { requestFor } from '../support/journey.ts';
import { describe, expect, it, vi } from 'vitest';
import { DATABASES, type TestDatabase } from '../support/databases.ts';
import { type EarlierState, keepState } from '../support/earlier-state.ts';
import { sampled } from '../support/length.ts';
import { smallStage, type SmallStage } from '../support/small-stage.ts';

/** Behind them lies an empty one. */
const PAGES = 13;
const SIZE = 10;

interface Moments {
  /** What the walk is about to ask for when the state is kept; that before the run where absent. */
  keptAt?: number;
  /** A page, or the path of a record, that is about to be answered when it is put back. */
  putBackAt: number | string;
}

/** A service of 13 pages, and a profile that asks for them one after the other. */
async function thirteenPages(database: TestDatabase, concurrency = 1): Promise<SmallStage> {
  const stage = await smallStage({}, {}, { database, top: { http: { concurrency } } });
  for (let id = 0; id < PAGES * SIZE; id += 1) stage.service.put(`r${String(id).padStart(3, '0')}`);
  return stage;
}

/** As the walk under way has stored them. */
async function storedPages(stage: SmallStage): Promise<number> {
  const query = 'SELECT walk_pages FROM _sync_checkpoints';
  return Number((await stage.value(query)) ?? 0);
}

/** A run in which the database is set back once. */
async function runSetBack(stage: SmallStage, { keptAt, putBackAt }: Moments, command: 'backfill' | 'sync') {
  let kept: EarlierState | null = keptAt === undefined ? await keepState(stage.address) : null;
  let isDone = false;
  stage.service.behaviour = {
    before: async ({ pathname, searchParams }) => {
      const page = Number(searchParams.get('page') ?? 1);
      const isListed = pathname === '/v1/content';
      const isThere = isListed ? page === putBackAt : pathname === putBackAt;
      if (isListed && kept === null && page === keptAt) {
        await vi.waitUntil(async () => (await storedPages(stage)) === page - 1, { timeout: 30_000, interval: 5 });
        kept = await keepState(stage.address);
      }
      if (!isThere || isDone || kept === null) return;
      if (isListed) {
        await vi.waitUntil(async () => (await storedPages(stage)) === page - 1, { timeout: 30_000, interval: 5 });
      }
      isDone = true;
      await kept.putBack();
      // Only what is asked for from now on.
      stage.service.asked();
    },
  };
  const report = await stage.walk(command);
  expect(isDone).toBe(true);
  return report;
}

function pagesIn(asked: readonly string[]): number[] {
  return asked
    .filter((path) => path.startsWith('/v1/content?') && !path.includes('updated_since'))
    .map((path) => Number(new URL(path, 'http://service').searchParams.get('page') ?? 1));
}

/** No event says anything of the record that is read. */
function nothingSaid() {
  return { after: null, isDelete: false };
}

const FAILED = { status: 'failed', error: { code: 'warehouse_unreachable' } };

describe.for(DATABASES)('a warehouse on $name that is set back while it is written', (database) => {
  const moments: [number, number][] = [
    [3, 4],
    [6, 12],
    [13, 14],
  ];
  it.each(sampled(moments, 2, DATABASES.indexOf(database)))(
    'has every page after the next run: the one before page %i is all that it remembers at page %i',
    async (from, to) => {
      const stage = await thirteenPages(database);
      expect(await runSetBack(stage, { keptAt: from, putBackAt: to }, 'backfill')).toMatchObject(FAILED);
      stage.service.asked();
      const next = await stage.walk('backfill');
      expect(next).toMatchObject({ status: 'ok', inserted: (PAGES - from + 1) * SIZE });
      expect(await stage.unlike()).toEqual([]);
      // It went on from there, behind a look at the page that proves the place.
      expect(Math.min(...pagesIn(next.asked))).toBe(from - 1);
      expect(await stage.walk()).toMatchObject({ status: 'ok', inserted: 0, updated: 0 });
    },
  );

  it('has every page where it has forgotten even that there was a run', async () => {
    const stage = await thirteenPages(database);
    await stage.walk('backfill');
    for (const id of ['r001', 'r069', 'r129']) stage.service.put(id, { title: 'changed' });
    expect(await runSetBack(stage, { putBackAt: 9 }, 'backfill')).toMatchObject(FAILED);
    expect(await stage.walk('backfill')).toMatchObject({ status: 'ok', updated: 3 });
    expect(await stage.unlike()).toEqual([]);
  });

  it('has what is gone as deleted where it was set back behind the end of the walk', async () => {
    const stage = await thirteenPages(database);
    await stage.walk('backfill');
    stage.service.records.delete('r050');
    const moments = { keptAt: 9, putBackAt: '/v1/content/r050' };
    expect(await runSetBack(stage, moments, 'backfill')).toMatchObject(FAILED);
    expect(await stage.walk('backfill')).toMatchObject({ status: 'ok', deleted: 1 });
    expect(await stage.unlike()).toEqual([]);
  });

  it('has every page where something else than the walk is the first to find out', async () => {
    const stage = await thirteenPages(database, 2);
    const app = await stage.open();
    const { signal } = new AbortController();
    try {
      let kept: EarlierState | null = null;
      stage.service.behaviour = {
        before: async ({ searchParams }) => {
          const page = Number(searchParams.get('page') ?? 0);
          if (page === 5) kept ??= await keepState(stage.address);
          if (page !== 9 || kept === null) return;
          stage.service.behaviour = {};
          await kept.putBack();
          expect(await app.refetch({ resource: 'content', key: 'r129', expected: nothingSaid, signal })).toBe('loaded');
        },
      };
      expect((await app.sync(requestFor(app, 'backfill'))).resources).toMatchObject([FAILED]);
      expect((await app.sync(requestFor(app, 'backfill'))).resources).toMatchObject([{ status: 'ok' }]);
      expect(await stage.unlike()).toEqual([]);
    } finally {
      await app.close();
    }
  });
});
