import { it } from 'vitest';
import * as fc from 'fast-check';
import { freshSeed } from '../support/random.ts';
import { neverBelieved, RUNS } from './verify-fuzz.ts';

const seed = freshSeed();

it(`100 times as many random deliveries are never believed (SEED=${seed})`, () => {
  fc.assert(neverBelieved(), { numRuns: RUNS * 100, seed });
});
