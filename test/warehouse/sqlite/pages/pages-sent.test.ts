import { once } from 'node:events';
import type { Worker } from 'node:worker_threads';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { openPageLoader } from '../../../../src/load/page-loader.ts';
import type { LoadablePage } from '../../../../src/load/prepare-page.ts';
import { pageThreads } from '../../../../src/warehouse/page-thread/thread-budget.ts';
import { startScript } from '../../../support/child-script.ts';
import { loading } from '../../../support/page-loading.ts';
import { recordsOf } from '../../../support/page-records.ts';
import { rowsIn, tempWarehouse } from '../../../support/temp-warehouse.ts';

const ROWS = 120;
const HOLDER = new URL('../../../support/lock-holder.ts', import.meta.url);
/** Pages after which the thread runs. */
const FIRST = [1, 2, 3];

function pageOf(page: number, text = 'ü'): LoadablePage {
  const texts = Array.from({ length: ROWS }, (_, at) => {
    const tags = Array.from({ length: at % 3 }, (__, tag) => `"t${tag}"`).join(',');
    return `{"id":"${page}-${at}","n":${at}.5,"tags":[${tags}],"text":"${text}"}`;
  });
  return { records: recordsOf(texts), requestedAt: Date.UTC(2026, 0, 1) + page };
}

/** A warehouse whose thread runs already. */
async function stage() {
  const before = pageThreads.most;
  pageThreads.most = 1;
  onTestFinished(() => void (pageThreads.most = before));
  const workers: Worker[] = [];
  const note = (worker: Worker): void => void workers.push(worker);
  process.on('worker', note);
  onTestFinished(() => void process.off('worker', note));
  const { warehouse, file } = await tempWarehouse();
  const { context } = await loading(warehouse, { profile: { history: 'all', updated: null } });
  const loader = await openPageLoader(context, { acceptsOlder: true });
  const load = (page: LoadablePage) => loader.load(page, () => []);
  for (const page of FIRST) await load(pageOf(page));
  const [worker] = workers;
  if (worker === undefined) throw new Error('no thread came');
  const messages = vi.spyOn(worker, 'postMessage');
  /** Has pages prepared, as a walk does while one is written, and waits until they are sent. */
  const prepare = async (...pages: LoadablePage[]): Promise<void> => {
    for (const page of pages) {
      const sent = messages.mock.calls.length;
      loader.prepare(page);
      await vi.waitFor(() => expect(messages.mock.calls.length).toBe(sent + 1));
    }
  };
  return { file, load, prepare, worker, messages };
}

function written(file: string): unknown {
  const counted = `SELECT substr(id, 1, instr(id, '-') - 1) + 0 AS page, count(*) AS rows FROM content GROUP BY 1 ORDER BY 1`;
  const versions = rowsIn(file, 'SELECT count(*) AS versions, count(DISTINCT id) AS ids FROM _sync_versions');
  return [rowsIn(file, counted), versions];
}

function wholePages(...pages: number[]): unknown {
  const ids = BigInt(pages.length * ROWS);
  return [pages.map((page) => ({ page: BigInt(page), rows: BigInt(ROWS) })), [{ versions: ids, ids }]];
}

describe('pages that are sent to the thread before their turn', () => {
  it('are written in their turn, whatever was sent meanwhile; without a turn they are not', async () => {
    const { file, load, prepare } = await stage();
    const pages = [4, 5, 6, 7, 8, 9].map((page) => pageOf(page));
    const never = pageOf(10);
    await prepare(...pages, never);
    // The first ones had to make way.
    for (const page of pages.toReversed()) expect((await load(page)).inserted).toBe(ROWS);
    expect(written(file)).toEqual(wholePages(...FIRST, 4, 5, 6, 7, 8, 9));
  });

  it('cost a short message in their turn, and large ones are not sent before', async () => {
    const { file, load, prepare, messages } = await stage();
    const page = pageOf(4);
    await prepare(page);
    await load(page);
    expect(messages.mock.calls.map(([{ request }]) => [request.page !== null, request.turn !== null])).toEqual([
      [true, false],
      [false, true],
    ]);
    messages.mockClear();
    const large = pageOf(5, 'x'.repeat(40_000));
    await load(large);
    expect(messages.mock.calls.map(([{ request }]) => request.page !== null && request.turn !== null)).toEqual([true]);
    expect(written(file)).toEqual(wholePages(...FIRST, 4, 5));
  });

  it('are written by this thread if the other one dies with them', async () => {
    const { file, load, prepare, worker } = await stage();
    const pages = [pageOf(4), pageOf(5)];
    await prepare(...pages);
    const ended = once(worker, 'exit');
    await Promise.all([worker.terminate(), ended]);
    for (const page of pages) expect((await load(page)).inserted).toBe(ROWS);
    expect(written(file)).toEqual(wholePages(...FIRST, 4, 5));
  });

  it('wait in the thread while another program holds the lock', async () => {
    const { file, load, prepare, messages } = await stage();
    const page = pageOf(4);
    await prepare(page);
    const holder = startScript(HOLDER, [file, '300']);
    await holder.ready;
    expect((await load(page)).inserted).toBe(ROWS);
    const [first, ...turns] = messages.mock.calls.map(([{ request }]) => request.page !== null);
    expect([first, turns.length > 1, turns.some(Boolean)]).toEqual([true, true, false]);
    expect(written(file)).toEqual(wholePages(...FIRST, 4));
  });
});
