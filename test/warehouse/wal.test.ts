import { describe, expect, it } from 'vitest';
import { once } from 'node:events';
import { systemClock } from '../../src/observe/system-clock.ts';
import { saveLimit } from '../../src/state/open-governor.ts';
import type { Warehouse } from '../../src/warehouse/warehouse.ts';
import { startScript, type ChildScript } from '../support/child-script.ts';
import { rowsIn, tempWarehouse } from '../support/temp-warehouse.ts';

describe('a reader that holds its transaction open', () => {
  it('F127 T5 holds up no write, and the WAL that grew meanwhile is gone soon after it lets go', async () => {
    const figures = await pinnedReader({ holdMs: 1_500, writesPerSecond: 400, bytes: 50_000, upkeepMs: 250 });
    expect(figures.writes).toBe(600);
    expect(figures.stored).toBe(500);
    // A write that waits for a reader waits a minute and fails.
    expect(figures.slowestWriteMs).toBeLessThan(10_000);
    expect(figures.largestWal).toBeGreaterThan(SMALL_WAL);
    expect(figures.backMs).toBeLessThan(60_000);
    expect(figures.walAfter).toBeLessThan(SMALL_WAL);
    expect(figures.seen).toEqual({ first: '1 0.0', last: '1 0.0', fresh: '501 25000000.0' });
  });
});

interface PinnedPlan {
  /** How long the reader holds its transaction open, in milliseconds. */
  holdMs: number;
  writesPerSecond: number;
  /** Length of what each write stores. */
  bytes: number;
  /** Between two looks after the warehouse. */
  upkeepMs: number;
}

interface PinnedFigures {
  writes: number;
  slowestWriteMs: number;
  largestWal: number;
  /** From the end of the reader's transaction, in which nothing is written any more. */
  backMs: number;
  walAfter: number;
  /** What the reader saw at its first look, at its last one in the same transaction, and after it. */
  seen: { first: string; last: string; fresh: string };
  stored: number;
}

const SMALL_WAL = 16_000_000;
const ROWS = 500;
const READER = new URL('wal-reader.ts', import.meta.url);
const BACK_WITHIN_MS = 60_000;

/** A reader in another process holds a transaction open while many writes a second go on, and then lets go. */
async function pinnedReader(plan: PinnedPlan): Promise<PinnedFigures> {
  const { warehouse, file } = await tempWarehouse();
  await saveLimit(warehouse.own, '0', '', 0);
  const reader = await startReader(file);
  const upkeep = keepUp(warehouse, plan.upkeepMs);
  const { writes, slowestWriteMs } = await write(warehouse, plan);
  const seen = await letGo(reader);
  const since = systemClock.monotonic();
  while (upkeep.walBytes >= SMALL_WAL && systemClock.monotonic() - since < BACK_WITHIN_MS) await systemClock.sleep(10);
  const backMs = systemClock.monotonic() - since;
  const { largest: largestWal, walBytes: walAfter } = upkeep;
  await upkeep.stop();
  const [row] = rowsIn(file, 'SELECT count(*) AS n FROM _sync_limits WHERE length(state) = ?', plan.bytes);
  const stored = Number(row?.['n']);
  return { writes, slowestWriteMs, largestWal, backMs, walAfter, seen, stored };
}

async function startReader(file: string): Promise<ChildScript> {
  const reader = startScript(READER, [file]);
  await reader.ready;
  return reader;
}

/** Ends the reader's transaction; it stays connected. */
async function letGo({ child }: ChildScript): Promise<PinnedFigures['seen']> {
  const told = child.stdout === null ? Promise.reject(new Error('no pipe')) : once(child.stdout, 'data');
  child.kill('SIGUSR2');
  const [line]: unknown[] = await told;
  return JSON.parse(String(line));
}

/** What `serve` does beside all its other work. */
function keepUp(warehouse: Warehouse, everyMs: number) {
  const state = { walBytes: Infinity, largest: 0, isOver: false };
  const loop = (async () => {
    while (!state.isOver) {
      const { walBytes } = await warehouse.upkeep();
      state.walBytes = walBytes;
      state.largest = Math.max(state.largest, walBytes);
      const next = systemClock.monotonic() + everyMs;
      while (!state.isOver && systemClock.monotonic() < next) await systemClock.sleep(Math.min(everyMs, 100));
    }
  })();
  return Object.assign(state, {
    stop: async () => {
      state.isOver = true;
      await loop;
    },
  });
}

async function write(warehouse: Warehouse, { holdMs, writesPerSecond, bytes }: PinnedPlan) {
  const start = systemClock.monotonic();
  const figures = { writes: 0, slowestWriteMs: 0 };
  const total = (holdMs / 1_000) * writesPerSecond;
  for (; figures.writes < total; figures.writes += 1) {
    const due = start + (figures.writes / writesPerSecond) * 1_000;
    if (systemClock.monotonic() < due) await systemClock.sleep(due - systemClock.monotonic());
    const before = systemClock.monotonic();
    await saveLimit(warehouse.own, `origin ${figures.writes % ROWS}`, 'x'.repeat(bytes), figures.writes);
    figures.slowestWriteMs = Math.max(figures.slowestWriteMs, systemClock.monotonic() - before);
  }
  return figures;
}
