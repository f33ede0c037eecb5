import { expect, it } from 'vitest';
import { describeDialect } from '../support/dialect/dialect.ts';
import { isEqual, tellProbed } from './dialects.ts';

const SEEDS = [8, 9, 13, 22, 1_001, 1_002, 1_003];

it.for(SEEDS)('a random service is copied by the profile that probe finds (SEED=%d)', async (seed) => {
  const told = await tellProbed(seed);
  expect(told.requests).toBeLessThanOrEqual(85);
  // The text says what to look at.
  if (!isEqual(told)) throw new Error(`${describeDialect(told.dialect)}\n${told.yaml}\n${told.broken.join('\n')}`);
});
