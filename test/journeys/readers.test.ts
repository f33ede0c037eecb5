import { describe, expect, it } from 'vitest';
import { DATABASES } from '../support/databases.ts';
import { watchedSyncs } from './readers-story.ts';

/** On Postgres each look brings all rows over. */
const PLANS = { sqlite: { rounds: 2, reads: 150, least: 20 }, postgres: { rounds: 2, reads: 20, least: 5 } } as const;

describe.for(DATABASES)('a reader in another process, during syncs of every kind, on $name', (database) => {
  it('F228 F230 never sees half a page, a record without its parts, or an emptied table', async () => {
    const { rounds, reads, least } = PLANS[database.name];
    const records = { content: 60, images: 40, analytics: 50 };
    const { found, unlike } = await watchedSyncs({ database, rounds, reads, readers: 1, records, pageSize: 10 });
    expect(found.map(({ violations }) => violations)).toEqual([[]]);
    // It did look in the middle of walks, and saw the tables change under its eyes.
    expect(found[0]?.midWalk).toBeGreaterThan(least);
    expect(found[0]?.states).toBeGreaterThan(least);
    expect(found[0]?.fewest).toBeGreaterThan(40);
    expect(unlike).toEqual([]);
  });
});
