import { describe, expect, it } from 'vitest';
import { DATABASES } from '../support/databases.ts';
import { freshSeed } from '../support/random.ts';
import { killLoop } from './kill-loop.ts';

const seed = freshSeed();
const KILLS = { sqlite: { cursor: 4, page: 2 }, postgres: { cursor: 3, page: 1 } } as const;

describe.for(DATABASES)(`kill -9 at random moments (SEED=${seed}) on $name`, (database) => {
  const { cursor, page } = KILLS[database.name];

  it('F060 F120 F156 T19 loses nothing, writes nothing twice and fetches at most one page again', async () => {
    const { midWalk } = await killLoop({
      database,
      kills: cursor,
      seed,
      pagination: 'cursor',
    });
    expect(midWalk).toBeGreaterThan(0);
  });

  it('F060 fetches at most the pages that were under way again where pages are fetched ahead', async () => {
    const { midWalk } = await killLoop({ database, kills: page, seed, pagination: 'page' });
    expect(midWalk).toBeGreaterThan(0);
  });
});
