import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { fewAtATime } from '../../src/web/receiver/few-at-a-time.ts';

describe('work that is done a few at a time', () => {
  it('is never more than so much at once, and gives its results in the order of the items', async () => {
    const state = { now: 0, most: 0 };
    const results = await fewAtATime(3, [5, 1, 4, 2, 3, 0, 6], async (turns) => {
      state.now += 1;
      state.most = Math.max(state.most, state.now);
      for (let waited = 0; waited < turns; waited += 1) await turn();
      state.now -= 1;
      return turns * 10;
    });
    expect(results).toEqual([50, 10, 40, 20, 30, 0, 60]);
    expect(state).toEqual({ now: 0, most: 3 });
  });

  it('is all done before the first error is told', async () => {
    const done: number[] = [];
    const work = fewAtATime(2, [1, 2, 3, 4], async (item) => {
      await turn();
      if (item % 2 === 0) throw new Error(`no ${item}`);
      done.push(item);
    });
    await expect(work).rejects.toThrow('no 2');
    expect(done).toEqual([1, 3]);
    expect(await fewAtATime(2, [], () => Promise.reject(new Error('nobody')))).toEqual([]);
  });
});
