import { describe, expect, it } from 'vitest';
import { pinnedReader, SMALL_WAL } from './wal-story.ts';

/** `MINUTES=3` for a shorter one. */
const minutes = Number(process.env['MINUTES'] ?? 30);

describe('a reader that holds its transaction open, for long', () => {
  it(`F127 T5 G24 for ${minutes} minutes at 500 writes a second`, async () => {
    const plan = { holdMs: minutes * 60_000, writesPerSecond: 500, bytes: 200, upkeepMs: 10_000 };
    const figures = await pinnedReader(plan);
    console.log(figures);
    expect(figures.seen.last).toBe(figures.seen.first);
    expect(figures.slowestWriteMs).toBeLessThan(10_000);
    expect(figures.backMs).toBeLessThan(60_000);
    expect(figures.walAfter).toBeLessThan(SMALL_WAL);
  });
});
