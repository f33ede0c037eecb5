import { describe, it } from 'vitest';
import { DATABASES } from '../support/databases.ts';
import { freshSeed } from '../support/random.ts';
import { randomStory } from './random-story.ts';

const first = freshSeed();
const SEEDS = Array.from({ length: 500 }, (_, index) => first + index);

describe.for(DATABASES)('G12 a service that changes, fails and moves while it is copied to $name', (database) => {
  it.for(SEEDS)('is what the warehouse holds after one quiet run (SEED=%d)', (seed) => randomStory(database, seed));
});
