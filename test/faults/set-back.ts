import { expect, vi } from 'vitest';
import type { TestDatabase } from '../support/databases.ts';
import { keepState, type EarlierState } from '../support/earlier-state.ts';
import { smallStage, type SmallStage } from '../support/small-stage.ts';

/** Behind them lies an empty one. */
export const PAGES = 13;
export const SIZE = 10;

interface Moments {
  /** What the walk is about to ask for when the state is kept; that before the run where absent. */
  keptAt?: number;
  /** A page, or the path of a record, that is about to be answered when it is put back. */
  putBackAt: number | string;
  /** How it is kept; as the tables stand where absent. */
  keep?: (address: string) => Promise<EarlierState>;
}

/** A service of 13 pages, and a profile that asks for them one after the other. */
export async function thirteenPages(database: TestDatabase, concurrency = 1): Promise<SmallStage> {
  const stage = await smallStage({}, {}, { database, top: { http: { concurrency } } });
  for (let id = 0; id < PAGES * SIZE; id += 1) stage.service.put(`r${String(id).padStart(3, '0')}`);
  return stage;
}

/** As the walk under way has stored them. */
async function storedPages(stage: SmallStage): Promise<number> {
  const query = 'SELECT walk_pages FROM _sync_checkpoints';
  return Number((await stage.read((db) => db.prepare(query).pluck().get())) ?? 0);
}

/** A run in which the database is set back once. */
export async function runSetBack(
  stage: SmallStage,
  { keptAt, putBackAt, keep = keepState }: Moments,
  command: 'backfill' | 'sync',
) {
  let kept: EarlierState | null = keptAt === undefined ? await keep(stage.address) : null;
  let isDone = false;
  stage.service.behaviour = {
    before: async ({ pathname, searchParams }) => {
      const page = Number(searchParams.get('page') ?? 1);
      const isListed = pathname === '/v1/content';
      const isThere = isListed ? page === putBackAt : pathname === putBackAt;
      if (isListed && kept === null && page === keptAt) {
        await vi.waitUntil(async () => (await storedPages(stage)) === page - 1, { timeout: 30_000, interval: 5 });
        kept = await keep(stage.address);
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
