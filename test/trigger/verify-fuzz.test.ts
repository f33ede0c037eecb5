import { it } from 'vitest';
import * as fc from 'fast-check';
import { neverBelieved, RUNS } from './verify-fuzz.ts';

it('random deliveries never throw and are never believed, whatever the scheme', () => {
  fc.assert(neverBelieved(), { numRuns: RUNS });
});
