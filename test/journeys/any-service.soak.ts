import { afterAll, describe, expect, it } from 'vitest';
import { accountOf } from '../support/world/account.ts';
import { tellStory } from '../support/world/story.ts';
import { Tally } from '../support/world/tally.ts';

const FIRST = Number(process.env['SEED'] ?? 1);
const COUNT = Number(process.env['SEEDS'] ?? 1_000);
const SEEDS = Array.from({ length: COUNT }, (_, index) => FIRST + index);

describe('a service that behaves as it likes', () => {
  const tally = new Tally();

  it.for(SEEDS)('is what the copy holds, or the run says that it may not be (SEED=%d)', async (seed) => {
    const outcome = await tellStory(seed);
    tally.add(outcome);
    const account = accountOf(outcome, COUNT === 1);
    if (COUNT === 1) process.stdout.write(`${account}\n`);
    if (outcome.broken !== null) expect.fail(account);
  });

  afterAll(() => {
    process.stdout.write(`${tally.report()}\n`);
  });
});
