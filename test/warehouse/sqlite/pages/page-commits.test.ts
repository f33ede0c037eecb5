import { once } from 'node:events';
import { renameSync } from 'node:fs';
import type { Worker } from 'node:worker_threads';
import { describe, expect, it, onTestFinished } from 'vitest';
import { pageThreads } from '../../../../src/warehouse/page-thread/thread-budget.ts';
import { startScript } from '../../../support/child-script.ts';
import { loading } from '../../../support/page-loading.ts';
import { rowsIn, tempWarehouse } from '../../../support/temp-warehouse.ts';

const ROWS = 150;
const HOLDER = new URL('../../../support/lock-holder.ts', import.meta.url);
const ASKED = Date.UTC(2026, 0, 1);

/** Pages whose records have what rows can have: changes of types, lists that shrink, odd texts, exact numbers. */
function pageOf(page: number, round = 0): string[] {
  return Array.from({ length: ROWS }, (_, at) => {
    const id = `${page}-${at}`;
    const tags = Array.from({ length: (at + round) % 3 }, (_, tag) => `"t${tag} ${'ü'.repeat(round)}"`).join(',');
    const drift = page > 3 ? `"text ${at}"` : `${at}.5`;
    return `{"id":"${id}","n":${drift},"live":${at % 2 === 0},"big":1234567890123456789${round},"tags":[${tags}],"odd":"\\u0000 ☃ ${round}"}`;
  });
}

async function stage(threads: number) {
  const before = pageThreads.most;
  pageThreads.most = threads;
  onTestFinished(() => void (pageThreads.most = before));
  const workers: Worker[] = [];
  const note = (worker: Worker): void => void workers.push(worker);
  process.on('worker', note);
  onTestFinished(() => void process.off('worker', note));
  const { warehouse, file } = await tempWarehouse();
  const { load } = await loading(warehouse, { profile: { history: 'all', updated: null } });
  return { warehouse, file, load, workers };
}

/** All that the pages have left, but for the times at which it was written. */
function contents(file: string): unknown[] {
  return [
    rowsIn(file, 'SELECT * FROM content ORDER BY id'),
    rowsIn(file, 'SELECT * FROM content_tags ORDER BY 1, 2'),
    rowsIn(file, 'SELECT * FROM _sync_versions ORDER BY resource, id, version'),
  ];
}

async function loadAll(threads: number) {
  const { file, load, workers } = await stage(threads);
  const outcomes = [];
  for (let page = 1; page <= 5; page += 1) outcomes.push(await load(pageOf(page), ASKED));
  for (let page = 1; page <= 5; page += 2) outcomes.push(await load(pageOf(page, 1), ASKED + 1_000));
  return { workers: workers.length, outcomes, contents: contents(file) };
}

function counted(file: string): unknown {
  return rowsIn(file, 'SELECT count(*) AS rows, (SELECT count(*) FROM _sync_versions) AS versions FROM content')[0];
}

describe('pages that a thread writes', () => {
  it('are the same as those that are written without one', async () => {
    const [here, aside] = [await loadAll(0), await loadAll(1)];
    expect([here.workers, aside.workers]).toEqual([0, 1]);
    expect(aside.outcomes).toEqual(here.outcomes);
    expect(aside.contents).toEqual(here.contents);
    expect(rowsOf(aside.contents[0])).toBe(5 * ROWS);
  });

  it('are written without it when it dies, each once; and with another one later', async () => {
    const { file, load, workers } = await stage(1);
    for (let page = 1; page <= 7; page += 1) {
      const loaded = load(pageOf(page));
      // It may not have begun, be at work, or have just written the page.
      if (page === 3) await once(process, 'worker');
      if (page === 3 || page === 6) setTimeout(() => void workers.at(-1)?.terminate(), page);
      await loaded;
    }
    expect(workers.length).toBeGreaterThan(1);
    expect(counted(file)).toEqual({ rows: 7n * BigInt(ROWS), versions: 7n * BigInt(ROWS) });
  });

  it('wait for another program that holds the lock, and go before what this thread writes', async () => {
    const { warehouse, file, load, workers } = await stage(1);
    for (let page = 1; page <= 3; page += 1) await load(pageOf(page));
    expect(workers).toHaveLength(1);
    const holder = startScript(HOLDER, [file, '300']);
    await holder.ready;
    const [loaded] = await Promise.all([load(pageOf(4)), warehouse.apply([])]);
    expect(loaded.inserted).toBe(ROWS);
    expect(counted(file)).toEqual({ rows: 4n * BigInt(ROWS), versions: 4n * BigInt(ROWS) });
  });

  it('are refused where the file has been moved away', async () => {
    const { file, load } = await stage(1);
    for (let page = 1; page <= 3; page += 1) await load(pageOf(page));
    for (const end of ['', '-wal', '-shm']) renameSync(`${file}${end}`, `${file}.moved${end}`);
    await expect(load(pageOf(4))).rejects.toMatchObject({ code: 'warehouse_gone' });
  });
});

function rowsOf(rows: unknown): number {
  return Array.isArray(rows) ? rows.length : 0;
}
