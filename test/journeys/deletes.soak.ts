import { describe, expect, it } from 'vitest';
import { DATABASES } from '../support/databases.ts';
import { freshSeed } from '../support/random.ts';
import { deleteStory } from './delete-story.ts';

const SEEDS = 200;

describe.for(DATABASES)('on $name', { timeout: 3_600_000 }, (database) => {
  it(`G14 ${SEEDS} stories of records that are deleted and come back`, async () => {
    const first = freshSeed();
    const sum = { deleted: 0, returned: 0 };
    for (let seed = first; seed < first + SEEDS; seed += 1) {
      const { deleted, returned } = await deleteStory(database, seed);
      sum.deleted += deleted;
      sum.returned += returned;
    }
    console.log(`${SEEDS} seeds from ${first}: ${sum.deleted} deletes, ${sum.returned} of them undone`);
    expect(sum.deleted).toBeGreaterThan(SEEDS);
  });
});
