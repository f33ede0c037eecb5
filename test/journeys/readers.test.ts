import { describe, expect, it } from 'vitest';
import { watchedSyncs } from './readers-story.ts';

describe('a reader in another process, during syncs of every kind', () => {
  it('F228 F230 never sees half a page, a record without its parts, or an emptied table', async () => {
    const records = { content: 150, images: 40, analytics: 150 };
    const { found, unlike } = await watchedSyncs({ rounds: 4, reads: 1_000, readers: 1, records, pageSize: 10 });
    expect(found.map(({ violations }) => violations)).toEqual([[]]);
    // It did look in the middle of walks, and saw the tables change under its eyes.
    expect(found[0]?.midWalk).toBeGreaterThan(20);
    expect(found[0]?.states).toBeGreaterThan(20);
    expect(found[0]?.fewest).toBeGreaterThan(40);
    expect(unlike).toEqual([]);
  });
});
