import { describe, it } from 'vitest';
import { DATABASES } from '../support/databases.ts';
import { sampled } from '../support/length.ts';
import { freshSeed } from '../support/random.ts';
import { randomReports } from './random-reports.ts';

const seed = freshSeed();
const SEEDS = { sqlite: sampled([seed, seed + 1], 2), postgres: sampled([seed + 2, seed + 3], 2) };

describe.for(DATABASES)('reports that are restated while they are copied to $name', (database) => {
  it.for(SEEDS[database.name])('are what the warehouse holds after one quiet run (SEED=%d)', (from) =>
    randomReports(database, from),
  );
});
