import { describe, it } from 'vitest';
import { freshSeed } from '../support/random.ts';
import { deleteStory } from './delete-story.ts';

const seed = freshSeed();

describe('G5 records that are deleted and come back while they are copied', () => {
  it.for([seed, seed + 1, seed + 2, seed + 3])(
    'are deleted in the copy only when they are gone (SEED=%d)',
    async (from) => {
      await deleteStory(from);
    },
  );
});
