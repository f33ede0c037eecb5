import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { backoffDelay, createRetryQuota } from '../../src/http/backoff.ts';

const limits = { base: 500, cap: 30_000 };

it.each([
  ['the first wait, at least', 1, 0, 250],
  ['the first wait, at most', 1, 0.999999, 500],
  ['the second', 2, 0.5, 750],
  ['the fifth', 5, 0, 4_000],
  ['the cap', 9, 0.999999, 30_000],
  ['far beyond the cap', 5_000, 0, 15_000],
])('%s', (_name, failures, random, ms) => {
  expect(backoffDelay(failures, limits, () => random)).toBe(ms);
});

it('is always between half of the base and the cap', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 1_000 }),
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      (failures, random) => {
        const ms = backoffDelay(failures, limits, () => random);
        return Number.isInteger(ms) && ms >= 250 && ms <= 30_000;
      },
    ),
  );
});

it('the quota gives out what it holds, takes back one per success, and never grows', () => {
  const quota = createRetryQuota(2);
  expect([quota.take(), quota.take(), quota.take()]).toEqual([true, true, false]);
  quota.refund();
  quota.refund();
  quota.refund();
  expect([quota.take(), quota.take(), quota.take()]).toEqual([true, true, false]);
});
