import { describe, it } from 'vitest';
import { freshSeed } from '../../support/random.ts';
import { scheduleStory } from './story.ts';

const first = freshSeed();
const SEEDS = Array.from({ length: 16 }, (_, index) => first + index);

describe('F073 F074 F150 F152 a schedule through downtime, failures, overlong runs and clocks that are moved', () => {
  it.for(SEEDS)('runs what is due, once, and nothing else (SEED=%d)', scheduleStory);
});
