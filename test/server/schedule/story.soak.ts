import { describe, it } from 'vitest';
import { freshSeed } from '../../support/random.ts';
import { scheduleStory } from './story.ts';

const first = freshSeed();
const SEEDS = Array.from({ length: 2_000 }, (_, index) => first + index);

describe('F073 F074 F150 F152 a schedule through all that, 2000 times', () => {
  it.for(SEEDS)('runs what is due, once, and nothing else (SEED=%d)', scheduleStory);
});
