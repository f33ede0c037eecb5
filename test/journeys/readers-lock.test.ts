import { describe, expect, it } from 'vitest';
import { whileLocked } from './readers-locked.ts';

describe('another program that holds the write lock', () => {
  it('F128 T2 G7 leaves the event loop free and reads answered, and everything is written once it lets go', async () => {
    const figures = await whileLocked(2_000);
    expect(figures.pagesBefore).toBeGreaterThan(0);
    expect(figures.pagesMeanwhile).toBe(0);
    // Where SQLite itself waited for the lock, the loop would have no time left at all.
    expect(figures.busy).toBeLessThan(0.5);
    expect(figures.reads).toBeGreaterThan(5);
    expect(figures.stored).toBe(figures.loaded);
  });
});
