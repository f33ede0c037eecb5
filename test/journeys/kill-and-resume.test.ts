import { describe, expect, it } from 'vitest';
import { DATABASES, SQLITE } from '../support/databases.ts';
import { longOrShort } from '../support/length.ts';
import { freshSeed } from '../support/random.ts';
import { killLoop } from './kill-loop.ts';

const seed = freshSeed();
const pageSize = 10;
const LARGE = 110;

describe.for(DATABASES)(`kill -9 at random moments (SEED=${seed}) on $name`, (database) => {
  it('F060 F120 F156 T19 loses nothing, writes nothing twice and fetches at most two pages again', async () => {
    const { midWalk } = await killLoop({
      database,
      kills: longOrShort(database === SQLITE ? 3 : 2, database === SQLITE ? 2 : 1),
      seed,
      pagination: 'cursor',
      pageSize,
    });
    expect(midWalk).toBeGreaterThan(0);
  });
});

/** Pages so large that they are written in a thread; in the long form also some that are not. */
describe.for(longOrShort([pageSize, LARGE], [LARGE]))(
  `kill -9 at random moments, in a walk by numbers with pages of %d (SEED=${seed})`,
  (size) => {
    it('F060 loses nothing, and fetches at most the pages again that were under way or waited for their turn', async () => {
      const kills = longOrShort(4, 2);
      const { midWalk } = await killLoop({ database: SQLITE, kills, seed, pagination: 'page', pageSize: size });
      expect(midWalk).toBeGreaterThan(0);
    });
  },
);
