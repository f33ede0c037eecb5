import { describe, it } from 'vitest';
import { DATABASES } from '../support/databases.ts';
import { freshSeed } from '../support/random.ts';
import { deleteStory } from './delete-story.ts';

const seed = freshSeed();
const SEEDS = { sqlite: [seed], postgres: [seed + 3] } as const;

describe.for(DATABASES)('G14 records that are deleted and come back while they are copied to $name', (database) => {
  it.for(SEEDS[database.name])('are deleted in the copy only when they are gone (SEED=%d)', async (from) => {
    await deleteStory(database, from);
  });
});
