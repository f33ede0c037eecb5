import { describe, expect, it } from 'vitest';
import { DATABASES, SQLITE } from '../support/databases.ts';
import { longOrShort } from '../support/length.ts';
import { freshSeed } from '../support/random.ts';
import { killLoop } from './kill-loop.ts';

const seed = freshSeed();
const pageSize = 10;

describe.for(DATABASES)(`kill -9 at random moments (SEED=${seed}) on $name`, (database) => {
  it('F060 F120 F156 T19 loses nothing, writes nothing twice and fetches at most two pages again', async () => {
    const { midWalk } = await killLoop({
      database,
      kills: longOrShort(database === SQLITE ? 3 : 2, 2),
      seed,
      pagination: 'cursor',
      pageSize,
    });
    expect(midWalk).toBeGreaterThan(0);
  });
});

describe(`kill -9 of a process that writes in a thread (SEED=${seed})`, () => {
  it('F060 loses nothing and writes nothing twice', async () => {
    const { midWalk } = await killLoop({ database: SQLITE, kills: 2, seed, pagination: 'cursor', pageSize: 110 });
    expect(midWalk).toBeGreaterThan(0);
  });
});

describe(`kill -9 at a random moment (SEED=${seed})`, () => {
  it('F060 fetches at most the pages again that were under way or waited for their turn', async () => {
    const { midWalk } = await killLoop({
      database: SQLITE,
      kills: longOrShort(4, 2),
      seed,
      pagination: 'page',
      pageSize,
    });
    expect(midWalk).toBeGreaterThan(0);
  });
});
