import { describe, it } from 'vitest';
import { freshSeed } from '../support/random.ts';
import { randomStory } from './random-story.ts';

const first = freshSeed();
const SEEDS = Array.from({ length: 500 }, (_, index) => first + index);

describe('G12 a service that changes, fails and moves while it is copied, 500 times', () => {
  it.for(SEEDS)('is what the warehouse holds after one quiet run (SEED=%d)', randomStory);
});
