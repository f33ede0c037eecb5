import { describe, it } from 'vitest';
import { requireHarmless, tellHostileStory } from '../support/hostile/hostile-story.ts';
import { sampled } from '../support/length.ts';

/** A sync that is stopped, a backfill over an honest copy, and a `serve`. `npm test` plays one of them, the soak many more. */
const SEEDS = sampled([13, 19, 26], 3);

describe('a hostile service', () => {
  it.for(SEEDS)('does no harm, and once it is honest the copy is right (SEED=%d)', async (seed) => {
    requireHarmless(await tellHostileStory(seed));
  });
});
