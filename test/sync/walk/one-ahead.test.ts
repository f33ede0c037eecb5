import { describe, expect, it, vi } from 'vitest';
import { oneAhead } from '../../../src/sync/walk/one-ahead.ts';

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

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('pages that are made one ahead', () => {
  it('come in their order, each made while the one before is in hand, and none further', async () => {
    const made: number[] = [];
    const taken: number[] = [];
    for await (const page of oneAhead(pages(made, 4), () => undefined)) {
      await settled();
      taken.push(page);
      expect(Math.max(...made)).toBe(Math.min(page + 1, 4));
    }
    expect(taken).toEqual([1, 2, 3, 4]);
  });

  it('are all handed out before the error of one behind them is thrown', async () => {
    const taken: number[] = [];
    const walk = async (): Promise<void> => {
      for await (const page of oneAhead(pages([], 3, true), () => undefined)) {
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
      for await (const page of oneAhead(pages(made, 9), stop)) if (page === 2) throw new Error('not written');
    };
    await expect(walk()).rejects.toThrow('not written');
    expect(stop).toHaveBeenCalledOnce();
    expect(made.at(-1)).toBe(0);
    expect(Math.max(...made)).toBe(3);
  });
});
