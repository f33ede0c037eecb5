import { describe, it } from 'vitest';
import { requireHarmless, tellHostileStory } from '../support/hostile/hostile-story.ts';
import { seedsOf } from '../support/length.ts';

describe('a hostile service', () => {
  // A sync that is stopped; 19 is a backfill over an honest copy, 26 a `serve`.
  it.for(seedsOf([13], 200))('does no harm, and once it is honest the copy is right (SEED=%d)', async (seed) => {
    requireHarmless(await tellHostileStory(seed));
  });
});
