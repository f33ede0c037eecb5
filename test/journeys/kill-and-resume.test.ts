import { describe, expect, it } from 'vitest';
import { freshSeed } from '../support/random.ts';
import { killLoop } from './kill-loop.ts';

const seed = freshSeed();

describe(`kill -9 at random moments (SEED=${seed})`, () => {
  it('F060 F120 F156 T19 loses nothing, writes nothing twice and fetches at most one page again', async () => {
    const { midWalk } = await killLoop({ kills: 10, seed, pagination: 'cursor', again: 1 });
    expect(midWalk).toBeGreaterThan(0);
  });

  it('F060 fetches at most the pages that were under way again where pages are fetched ahead', async () => {
    const { midWalk } = await killLoop({ kills: 4, seed, pagination: 'page', again: 9 });
    expect(midWalk).toBeGreaterThan(0);
  });
});
