import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import { systemClock } from '../../src/observe/system-clock.ts';
import { saveLimit } from '../../src/state/open-governor.ts';
import type { Warehouse } from '../../src/warehouse/warehouse.ts';
import { startScript } from '../support/child-script.ts';
import { loading } from '../support/page-loading.ts';
import { rowsIn, tempWarehouse } from '../support/temp-warehouse.ts';

interface LockedFigures {
  /** Of the event loop while the lock was held, in milliseconds. */
  lag: { p50: number; p99: number; max: number };
  /** Part of that time in which the loop was not free for anything else. */
  busy: number;
  /** Reads of our own tables that were answered meanwhile. */
  reads: number;
  pagesBefore: number;
  pagesMeanwhile: number;
  /** Records that were loaded, and those that are there. */
  loaded: number;
  stored: number;
}

const RESOURCES = ['content', 'images', 'analytics'] as const;
const PAGE = 100;
const REFETCHES = 5;
const LONGER_THAN_ANY_TEST_MS = 600_000;
const HOLDER = new URL('../support/lock-holder.ts', import.meta.url);

/** Three walks, re-fetches and small writes go on while another process holds the write lock for so long. */
export async function whileLocked(holdMs: number): Promise<LockedFigures> {
  const { warehouse, file } = await tempWarehouse();
  const work = await startWork(warehouse);
  await systemClock.sleep(500);
  const pagesBefore = work.pages();
  const holder = startScript(HOLDER, [file, String(LONGER_THAN_ANY_TEST_MS)]);
  await holder.ready;
  const [loaded, read] = [work.pages(), work.reads()];
  const measured = await measure(holdMs);
  const [pagesMeanwhile, reads] = [work.pages() - loaded, work.reads() - read];
  holder.child.kill('SIGKILL');
  await holder.ended;
  await systemClock.sleep(300);
  await work.stop();
  const counts = RESOURCES.map((resource) => Number(rowsIn(file, `SELECT count(*) AS n FROM ${resource}`)[0]?.['n']));
  const stored = counts.reduce((sum, count) => sum + count, 0);
  return { ...measured, reads, pagesBefore, pagesMeanwhile, loaded: work.records(), stored };
}

async function measure(ms: number): Promise<Pick<LockedFigures, 'lag' | 'busy'>> {
  const delay = monitorEventLoopDelay({ resolution: 5 });
  delay.enable();
  // The first turn only winds it up.
  await systemClock.sleep(30);
  delay.reset();
  const before = performance.eventLoopUtilization();
  await systemClock.sleep(ms - 30);
  const { utilization } = performance.eventLoopUtilization(before);
  delay.disable();
  const lag = { p50: delay.percentile(50) / 1e6, p99: delay.percentile(99) / 1e6, max: delay.max / 1e6 };
  return { lag, busy: utilization };
}

async function startWork(warehouse: Warehouse) {
  const state = { isOver: false, id: 0, pages: 0, records: 0, reads: 0 };
  const loaders = await Promise.all(RESOURCES.map((resource) => loading(warehouse, { resource })));
  const repeat = async (pauseMs: number, work: () => Promise<unknown>): Promise<void> => {
    for (; !state.isOver; await systemClock.sleep(pauseMs)) await work();
  };
  const load = async (place: number, records: number): Promise<void> => {
    await loaders[place % loaders.length]?.load(Array.from({ length: records }, () => record(state.id++)));
    state.pages += 1;
    state.records += records;
  };
  const all = [
    ...RESOURCES.map((_, place) => repeat(10, () => load(place, PAGE))),
    ...Array.from({ length: REFETCHES }, (_, place) => repeat(20, () => load(place, 1))),
    repeat(200, () => saveLimit(warehouse.own, 'origin', '{}', 0)),
    repeat(20, async () => {
      await warehouse.count('content');
      state.reads += 1;
    }),
  ];
  return {
    pages: () => state.pages,
    records: () => state.records,
    reads: () => state.reads,
    stop: async () => {
      state.isOver = true;
      await Promise.all(all);
    },
  };
}

function record(id: number): string {
  return JSON.stringify({ id: `r${id}`, title: `Title ${id}`, body: 'x'.repeat(300), tags: ['a', 'b'] });
}
