import { monitorEventLoopDelay } from 'node:perf_hooks';
import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import type { Clock } from '../../src/model/clock.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { saveLimit } from '../../src/state/limits.ts';
import { startScript } from '../support/child-script.ts';
import { loading } from '../support/page-loading.ts';
import { openFor, rowsIn, tempWarehouse } from '../support/temp-warehouse.ts';

const HOLDER = new URL('../support/lock-holder.ts', import.meta.url);

describe('another process that holds the write lock', () => {
  it('F128 makes every kind of write wait its time, without stalling the event loop', async () => {
    const { warehouse, file } = await tempWarehouse();
    const { load } = await loading(warehouse);
    await load(['{"id":"1","n":1}']);
    const holder = startScript(HOLDER, [file, '2000']);
    await holder.ready;

    const delay = monitorEventLoopDelay({ resolution: 5 });
    delay.enable();
    const started = performance.now();
    await Promise.all([
      load(['{"id":"2","n":1.5}']),
      saveLimit(warehouse.own, 'origin', '{}', systemClock.now()),
      warehouse.apply([]),
      openFor(file),
    ]);
    const waited = performance.now() - started;
    delay.disable();
    await holder.ended;
    expect(waited).toBeGreaterThan(500);
    expect(delay.max / 1e6, 'longest stall in ms').toBeLessThan(300);
    expect(rowsIn(file, 'SELECT id, n FROM content ORDER BY id')).toEqual([{ id: '1', n: 1 }, { id: '2', n: 1.5 }]);
  });

  it('makes a write give up after a minute, with what to do', async () => {
    let elapsed = 0;
    const hurried: Clock = { ...systemClock, monotonic: () => (elapsed += 25_000), sleep: () => systemClock.sleep(1) };
    const { warehouse, file } = await tempWarehouse(hurried);
    const other = new Database(file);
    other.exec('BEGIN IMMEDIATE');
    try {
      const busy = { name: 'SyncError', code: 'warehouse_busy', hint: expect.stringContaining('another program') };
      await expect(warehouse.apply([])).rejects.toMatchObject(busy);
      await expect(saveLimit(warehouse.own, 'origin', '{}', 0)).rejects.toMatchObject(busy);
    } finally {
      other.close();
    }
    await saveLimit(warehouse.own, 'origin', '{}', 0);
  });
});

describe('reading and then writing', () => {
  it('F129 T4 never fails because somebody wrote in between', async () => {
    const { warehouse, file } = await tempWarehouse();
    const { load } = await loading(warehouse);
    const other = await loading(await openFor(file), { resource: 'images' });
    // Each page looks up what is stored and then writes, while the other connection does the same.
    const pages = Array.from({ length: 100 }, (_, page) => [`{"id":"${page % 7}","n":${page}}`]);
    const both = [load, other.load].map(async (load) => {
      for (const [at, page] of pages.entries()) await load(page, at);
    });
    await Promise.all(both);
    for (const table of ['content', 'images']) {
      expect(rowsIn(file, `SELECT max(n) AS top, count(*) AS n FROM ${table}`)).toEqual([{ top: 99n, n: 7n }]);
    }
  });
});
