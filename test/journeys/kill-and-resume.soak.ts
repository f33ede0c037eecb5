import { describe, expect, it } from 'vitest';
import { DATABASES } from '../support/databases.ts';
import { freshSeed } from '../support/random.ts';
import { killLoop } from './kill-loop.ts';

const seed = freshSeed();

describe.for(DATABASES)(`kill -9 at random moments, for long (SEED=${seed}) on $name`, (database) => {
  it('F060 F120 F156 T19 loses nothing in 200 kills', async () => {
    const { midWalk, walks } = await killLoop({
      database,
      kills: 200,
      seed,
      pagination: 'cursor',
    });
    expect(midWalk).toBeGreaterThan(50);
    expect(walks).toBeGreaterThan(3);
  });

  it('F060 loses nothing in 60 kills of a walk that fetches ahead', async () => {
    const { midWalk } = await killLoop({ database, kills: 60, seed, pagination: 'page' });
    expect(midWalk).toBeGreaterThan(15);
  });
});

describe.for(DATABASES)(`kill -9 of a process that works on pages in a thread (SEED=${seed}) on $name`, (database) => {
  it.for(['cursor', 'page'] as const)(
    'F060 loses nothing and writes nothing twice in 60 kills by %s',
    async (style) => {
      const { midWalk } = await killLoop({ database, kills: 60, seed, pagination: style, pageSize: 110 });
      expect(midWalk).toBeGreaterThan(12);
    },
  );
});
