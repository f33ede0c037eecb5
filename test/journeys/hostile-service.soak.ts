import { describe, it } from 'vitest';
import { freshSeed } from '../support/random.ts';
import { hostileAccount, requireHarmless, tellHostileStory } from '../support/hostile/hostile-story.ts';

/** `SEED=<seed> SEEDS=1` plays one seed again and prints what the services did. */
const FIRST = freshSeed();
const COUNT = Number(process.env['SEEDS'] ?? 200);
const SEEDS = Array.from({ length: COUNT }, (_, index) => FIRST + index);

describe('a hostile service', () => {
  it.for(SEEDS)('does no harm, and once it is honest the copy is right (SEED=%d)', async (seed) => {
    const outcome = await tellHostileStory(seed);
    if (COUNT === 1) process.stdout.write(`${hostileAccount(outcome)}\n`);
    requireHarmless(outcome);
  });
});
