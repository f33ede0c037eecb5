import { describe, expect, it, onTestFinished } from 'vitest';
import { BulkThread } from '../../../src/warehouse/page-thread/bulk-thread.ts';
import { ThreadGone } from '../../../src/warehouse/page-thread/page-thread.ts';
import { ThreadBudget } from '../../../src/warehouse/page-thread/thread-budget.ts';

const SCRIPT = { script: new URL('./sums-thread.ts', import.meta.url), data: 100, name: 'sums' };
const LARGE = 500;

type Sums = BulkThread<Uint8Array, { sum: number; bytes: Uint8Array }>;

function bulk(budget: ThreadBudget): Sums {
  const thread: Sums = new BulkThread(SCRIPT, budget);
  onTestFinished(() => thread.close());
  return thread;
}

/** The thread, after as many large pages as it takes. */
function started(thread: Sums) {
  expect([thread.borrow(LARGE), thread.borrow(LARGE)]).toEqual([null, null]);
  const borrowed = thread.borrow(LARGE);
  if (borrowed === null) throw new Error('no thread came');
  return borrowed;
}

describe('a thread for bulk work', () => {
  it('comes with the third large page, answers in order, and hands memory over', async () => {
    const sums = bulk(new ThreadBudget(1));
    expect(Array.from({ length: 9 }, () => sums.borrow(10))).toEqual(Array(9).fill(null));
    const thread = started(sums);
    const page = new Uint8Array([1, 2, 3]);
    const asked = [thread.ask(page, [page.buffer]), thread.ask(new Uint8Array([4, 5]))];
    expect(page).toHaveLength(0);
    expect((await Promise.all(asked)).map(({ sum }) => sum)).toEqual([106, 109]);
    await expect(thread.ask(new Uint8Array())).rejects.toMatchObject({ message: 'no bytes', code: 'EMPTY' });
    expect((await thread.ask(new Uint8Array([9, 1]))).bytes).toEqual(new Uint8Array([9, 1]));
  });

  it('is one of as many as the process may have, and makes room when it is closed', async () => {
    const budget = new ThreadBudget(1);
    const [first, second] = [bulk(budget), bulk(budget)];
    started(first);
    const borrowed = Array.from({ length: 4 }, () => second.borrow(LARGE));
    expect(borrowed).toEqual([null, null, null, null]);
    await first.close();
    expect(second.borrow(LARGE)).not.toBeNull();
    expect(first.borrow(LARGE)).toBeNull();
    const none = bulk(new ThreadBudget(0));
    expect(none.isPossible).toBe(false);
    expect(Array.from({ length: 4 }, () => none.borrow(LARGE))).toEqual([null, null, null, null]);
  });

  it('rests only while nobody has it, and another one comes with later pages', async () => {
    const sums = bulk(new ThreadBudget(1));
    const thread = started(sums);
    await sums.rest();
    expect((await thread.ask(new Uint8Array([4, 5]))).sum).toBe(109);
    sums.release();
    await sums.rest();
    expect(thread.isGone).toBe(true);
    expect((await started(sums).ask(new Uint8Array([4, 5]))).sum).toBe(109);
    // It has not died.
    for (let turn = 0; turn < 3; turn += 1) {
      sums.release();
      await sums.rest();
      started(sums);
    }
  });

  it('fails what it was asked when it dies, and another one comes with later pages; not for ever', async () => {
    const sums = bulk(new ThreadBudget(1));
    for (let death = 0; death < 3; death += 1) {
      const thread = started(sums);
      const asked = [thread.ask(new Uint8Array([0])), thread.ask(new Uint8Array([1, 2]))];
      const settled = await Promise.allSettled(asked);
      for (const end of settled) expect(end).toMatchObject({ status: 'rejected', reason: expect.any(ThreadGone) });
      await expect(thread.ask(new Uint8Array([1, 2]))).rejects.toThrow(ThreadGone);
      sums.release();
    }
    expect(Array.from({ length: 9 }, () => sums.borrow(LARGE))).toEqual(Array(9).fill(null));
  });
});
