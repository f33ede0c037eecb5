import { describe, it } from 'vitest';
import { seedsOf } from '../support/length.ts';
import { requireKept, tellStory } from '../support/world/story.ts';

describe('a service that behaves as it likes', () => {
  it.for(seedsOf([13, 29], 1_000))(
    'is what the copy holds, or the run says that it may not be (SEED=%d)',
    async (seed) => {
      requireKept(await tellStory(seed));
    },
  );
});
