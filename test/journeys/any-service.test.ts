import { describe, it } from 'vitest';
import { requireKept } from '../support/world/account.ts';
import { tellStory } from '../support/world/story.ts';
import { sampled } from '../support/length.ts';

const SEEDS = sampled([13, 22, 29, 31], 2);

describe('a service that behaves as it likes', () => {
  it.for(SEEDS)('is what the copy holds, or the run says that it may not be (SEED=%d)', async (seed) => {
    requireKept(await tellStory(seed));
  });
});
