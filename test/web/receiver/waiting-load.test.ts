import { describe, expect, it } from 'vitest';
import { WaitingLoad } from '../../../src/web/receiver/waiting-load.ts';

describe('what waits in an inbox', () => {
  it('is limited in rows and bytes, without what has left', () => {
    const waiting = new WaitingLoad(() => ({ rows: 2, bytes: 100 }));
    expect(waiting.reserve(60)).toBe(true);
    expect(waiting.reserve(41)).toBe(false);
    expect(waiting.reserve(40)).toBe(true);
    expect(waiting.reserve(0)).toBe(false);
    waiting.release(60, false);
    expect(waiting.reserve(60)).toBe(true);
  });

  it('is what was counted, and what was stored while it was counted', () => {
    const waiting = new WaitingLoad(() => ({ rows: 2, bytes: 100 }));
    const store = (): boolean => {
      const isStored = waiting.reserve(1);
      if (isStored) waiting.release(1, true);
      return isStored;
    };
    store();
    const finish = waiting.startCount();
    store();
    expect(store()).toBe(false);
    // The first one was processed meanwhile; the count may have missed the second.
    finish({ rows: 0, bytes: 0 });
    expect([store(), store()]).toEqual([true, false]);
  });

  it('includes a delivery in flight after each count, and ignores a count that a later one has overtaken', () => {
    const waiting = new WaitingLoad(() => ({ rows: 2, bytes: 100 }));
    waiting.reserve(1);
    const [older, newer] = [waiting.startCount(), waiting.startCount()];
    newer({ rows: 1, bytes: 1 });
    expect(waiting.reserve(1)).toBe(false);
    older({ rows: 0, bytes: 0 });
    newer({ rows: 1, bytes: 1 });
    expect(waiting.reserve(1)).toBe(false);
  });
});
