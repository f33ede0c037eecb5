import { describe, it } from 'vitest';
import { requireKept } from '../support/dialect/account.ts';
import { tellDialect } from '../support/dialect/story.ts';
import { sampled } from '../support/length.ts';

const SEEDS = sampled([1, 2, 3, 4, 5, 6], 6);

describe('a service that speaks any dialect of the grammar', () => {
  it.for(SEEDS)('is what the copy by its profile holds, or the run says that it may not be (SEED=%d)', async (seed) => {
    requireKept(await tellDialect(seed));
  });
});
