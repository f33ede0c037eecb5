import { describe, it } from 'vitest';
import { freshSeed } from '../support/random.ts';
import { randomStory } from './random-story.ts';

const seed = freshSeed();

describe('G12 a service that changes, fails and moves while it is copied', () => {
  it.for([seed, seed + 1, seed + 2, seed + 3])(
    'is what the warehouse holds after one quiet run (SEED=%d)',
    randomStory,
  );
});
