import { describe, it } from 'vitest';
import { DATABASES } from '../support/databases.ts';
import { freshSeed } from '../support/random.ts';
import { randomReports } from './random-reports.ts';

const first = freshSeed();
const SEEDS = Array.from({ length: 300 }, (_, index) => first + index);

describe.for(DATABASES)('reports that are restated while they are copied to $name', (database) => {
  it.for(SEEDS)('are what the warehouse holds after one quiet run (SEED=%d)', (seed) => randomReports(database, seed));
});
