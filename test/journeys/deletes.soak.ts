import { expect, it } from 'vitest';
import { freshSeed } from '../support/random.ts';
import { deleteStory } from './delete-story.ts';

const SEEDS = 200;

it(`G5 ${SEEDS} stories of records that are deleted and come back`, { timeout: 3_600_000 }, async () => {
  const first = freshSeed();
  const sum = { deleted: 0, returned: 0 };
  for (let seed = first; seed < first + SEEDS; seed += 1) {
    const { deleted, returned } = await deleteStory(seed);
    sum.deleted += deleted;
    sum.returned += returned;
  }
  console.log(`${SEEDS} seeds from ${first}: ${sum.deleted} deletes, ${sum.returned} of them undone`);
  expect(sum.deleted).toBeGreaterThan(SEEDS);
});
