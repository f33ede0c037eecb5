import { describe, expect, it } from 'vitest';
import { pinnedReader, SMALL_WAL } from './wal-story.ts';

describe('a reader that holds its transaction open', () => {
  it('F127 T5 holds up no write, and the WAL that grew meanwhile is gone soon after it lets go', async () => {
    const figures = await pinnedReader({ holdMs: 1_500, writesPerSecond: 400, bytes: 50_000, upkeepMs: 250 });
    expect(figures.writes).toBe(600);
    expect(figures.stored).toBe(500);
    // A write that waits for a reader waits a minute and fails.
    expect(figures.slowestWriteMs).toBeLessThan(10_000);
    expect(figures.largestWal).toBeGreaterThan(SMALL_WAL);
    expect(figures.backMs).toBeLessThan(60_000);
    expect(figures.walAfter).toBeLessThan(SMALL_WAL);
    expect(figures.seen).toEqual({ first: '1 0.0', last: '1 0.0', fresh: '501 25000000.0' });
  });
});
