import { describe, it } from 'vitest';
import { DATABASES } from '../support/databases.ts';
import { freshSeed } from '../support/random.ts';
import { randomStory } from './random-story.ts';

const seed = freshSeed();
const SEEDS = { sqlite: [seed], postgres: [seed + 3] } as const;

describe.for(DATABASES)('G12 a service that changes, fails and moves while it is copied to $name', (database) => {
  it.for(SEEDS[database.name])('is what the warehouse holds after one quiet run (SEED=%d)', (from) =>
    randomStory(database, from),
  );
});
