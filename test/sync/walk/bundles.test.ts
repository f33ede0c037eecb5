import { describe, expect, it, vi } from 'vitest';
import { bundles, type Bundling } from '../../../src/sync/walk/bundles.ts';

/** Pages 1, 2, ... that say when each was made; the last of them fails where that is asked for. */
async function* pages(made: number[], count: number, fails = false): AsyncGenerator<number, void> {
  try {
    for (let page = 1; page <= count; page += 1) {
      if (fails && page === count) throw new Error(`page ${page} is bad`);
      made.push(page);
      yield page;
    }
  } finally {
    made.push(0);
  }
}

const EACH: Bundling<number> = { hasRoom: () => false, joins: () => false };
/** Three at most, and no even one behind another page. */
const THREES: Bundling<number> = { hasRoom: ({ length }) => length < 3, joins: (_, next) => next % 2 === 1 };

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('pages that are made one ahead', () => {
  it('come in their order, each made while the one before is in hand, and none further', async () => {
    const made: number[] = [];
    const taken: number[] = [];
    for await (const [page = 0] of bundles(pages(made, 4), EACH, () => undefined)) {
      await settled();
      taken.push(page);
      expect(Math.max(...made)).toBe(Math.min(page + 1, 4));
    }
    expect(taken).toEqual([1, 2, 3, 4]);
  });

  it('are all handed out before the error of one behind them is thrown', async () => {
    const taken: number[] = [];
    const walk = async (): Promise<void> => {
      for await (const [page = 0] of bundles(pages([], 3, true), EACH, () => undefined)) {
        await settled();
        taken.push(page);
      }
    };
    await expect(walk()).rejects.toThrow('page 3 is bad');
    expect(taken).toEqual([1, 2]);
  });

  it('end, and stop what is under way, where their consumer fails', async () => {
    const made: number[] = [];
    const stop = vi.fn<() => void>();
    const walk = async (): Promise<void> => {
      for await (const [page] of bundles(pages(made, 9), EACH, stop)) if (page === 2) throw new Error('not written');
    };
    await expect(walk()).rejects.toThrow('not written');
    expect(stop).toHaveBeenCalledOnce();
    expect(made.at(-1)).toBe(0);
    expect(Math.max(...made)).toBe(3);
  });

  it('come together if they are there by then and fit, and no more are made than fit', async () => {
    const made: number[] = [];
    const taken: number[][] = [];
    const most: number[] = [];
    for await (const bundle of bundles(pages(made, 12), THREES, () => undefined)) {
      taken.push(bundle);
      for (let turn = 0; turn < 9; turn += 1) await settled();
      most.push(Math.max(...made) - (bundle.at(-1) ?? 0));
    }
    expect(taken.flat()).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    // The first is handed out at once; then each bundle begins with the even one that fitted into none.
    expect(taken.slice(1, 3)).toEqual([
      [2, 3],
      [4, 5],
    ]);
    expect(Math.max(...most)).toBe(3);
  });
});
