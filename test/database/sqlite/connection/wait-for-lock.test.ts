import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { saveLimit } from '../../../../src/http/rate-limit/rate-limiter.ts';
import type { Clock } from '../../../../src/model/clock.ts';
import { systemClock } from '../../../../src/observe/system-clock.ts';
import { type ChildScript, startScript } from '../../../support/child-script.ts';
import { differences } from '../../../support/compare-copy.ts';
import { journey } from '../../../support/journey.ts';
import { loading } from '../../../support/page-loading.ts';
import { asOther, openFor, rowsIn, tempFolder, tempWarehouse } from '../../../support/temp-warehouse.ts';

/** A stall of ours comes every time; one by other work on this machine, such as static checks, ends after some seconds. */
const BUSY_MACHINE = { retry: { count: 8, delay: 3_000 } };
const HOLDER = new URL('../../../support/lock-holder.ts', import.meta.url);

describe('another process that holds the write lock', () => {
  it('F128 T2 G7 makes every kind of write wait its time, without stalling the event loop', BUSY_MACHINE, async () => {
    const { warehouse, file } = await tempWarehouse();
    const { load } = await loading(warehouse);
    await load(['{"id":"1","n":1}']);
    const holder = startScript(HOLDER, [file, '1000']);
    await holder.ready;

    const delay = monitorEventLoopDelay({ resolution: 5 });
    delay.enable();
    // The first turn only winds it up.
    await sleep(30);
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
    expect(waited).toBeGreaterThan(300);
    // The longest stall, in milliseconds.
    expect(delay.max / 1e6).toBeLessThan(300);
    expect(rowsIn(file, 'SELECT id, n FROM content ORDER BY id')).toEqual([
      { id: '1', n: 1 },
      { id: '2', n: 1.5 },
    ]);
  });

  it('F128 is waited for by a backfill, from its first page to its last word', BUSY_MACHINE, async () => {
    const stage = await journey({ sandbox: { generate: { content: 500, images: 100, analytics: 100 } } });
    await stage.run('backfill', { resources: ['images'] });
    stage.sandbox.faults.add({ fault: 'latency', ms: 600, page: 3, resource: 'content' });
    const holders: ChildScript[] = [];
    const page = (): void => {
      if (holders.length === 0) holders.push(startScript(HOLDER, [stage.file, '2000']));
    };
    const delay = monitorEventLoopDelay({ resolution: 5 });
    delay.enable();
    const report = await stage.run('backfill', { watcher: { page } });
    delay.disable();
    expect(report.status).toBe('ok');
    // The lock was held while pages were to be written: some of them had to wait.
    expect(Math.max(...report.resources.map(({ seconds }) => seconds))).toBeGreaterThan(1);
    expect(delay.max / 1e6).toBeLessThan(300);
    expect(await stage.read((db) => differences(db, stage.sandbox.store))).toEqual([]);
  });

  it('F128 is waited for at the opening too, while the file is not yet one of ours', async () => {
    const file = `${tempFolder()}/blog.db`;
    asOther(file, (db) => db.exec('CREATE TABLE theirs (x)'));
    const holder = startScript(HOLDER, [file, '400']);
    await holder.ready;
    const warehouse = await openFor(file);
    expect(await warehouse.rows.tableNames()).toContain('theirs');
    expect(rowsIn(file, 'PRAGMA journal_mode')).toEqual([{ journal_mode: 'wal' }]);
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
