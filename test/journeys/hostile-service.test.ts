import { describe, it } from 'vitest';
import { requireHarmless, tellHostileStory } from '../support/hostile/hostile-story.ts';

/** A sync that is stopped, a backfill over an honest copy, and a `serve`. The soak plays more. */
const SEEDS = [13, 19, 26];

describe('a hostile service', () => {
  it.for(SEEDS)('does no harm, and once it is honest the copy is right (SEED=%d)', async (seed) => {
    requireHarmless(await tellHostileStory(seed));
  });
});
