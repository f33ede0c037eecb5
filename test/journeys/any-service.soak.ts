import { afterAll, describe, it } from 'vitest';
import { accountOf, requireKept } from '../support/world/account.ts';
import { freshSeed } from '../support/random.ts';
import { tellStory } from '../support/world/story.ts';
import { Tally } from '../support/world/tally.ts';

/**
 * `SEED=<seed> SEEDS=1` plays one service again and prints what it does, its profile, each run and each request; `SEED`
 * and `SEEDS` choose others. At the end the kinds of broken promises are counted, and what full walks cost.
 */
const FIRST = freshSeed();
const COUNT = Number(process.env['SEEDS'] ?? 1_000);
const SEEDS = Array.from({ length: COUNT }, (_, index) => FIRST + index);

describe('a service that behaves as it likes', () => {
  const tally = new Tally();

  it.for(SEEDS)('is what the copy holds, or the run says that it may not be (SEED=%d)', async (seed) => {
    const outcome = await tellStory(seed);
    tally.add(outcome);
    if (COUNT === 1) process.stdout.write(`${accountOf(outcome, true)}\n`);
    requireKept(outcome);
  });

  afterAll(() => {
    process.stdout.write(`${tally.report()}\n`);
  });
});
