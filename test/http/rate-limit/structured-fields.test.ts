import { expect, it } from 'vitest';
import { policyMembers, rateLimitMembers, readAnswerLimits } from '../../../src/http/rate-limit/answer-limits.ts';
import { rateDialectSchema } from '../../../src/config/profile/rate-dialect.ts';
import { fieldVectors } from '../../support/corpora.ts';

it('F024 no structured field vector makes the reader throw or say something that is no number', () => {
  const dialect = rateDialectSchema.parse('auto');
  const all = fieldVectors();
  expect(all.length).toBeGreaterThan(1_000);
  for (const { raw = [] } of all) {
    const headers = { ratelimit: raw, 'ratelimit-policy': raw, 'ratelimit-limit': raw, 'retry-after': raw };
    const hint = readAnswerLimits({ headers, body: undefined, receivedAt: 0 }, dialect);
    for (const quota of hint.quotas) {
      for (const value of [quota.limit, quota.remaining, quota.resetMs, quota.windowMs]) {
        expect(value === null || (Number.isFinite(value) && value >= 0)).toBe(true);
      }
    }
  }
});

it('F024 a list that must fail is not read as a list of policies', () => {
  const lists = fieldVectors().filter((vector) => vector.header_type === 'list' && vector.must_fail);
  expect(lists.length).toBeGreaterThan(50);
  for (const { raw = [] } of lists) expect(policyMembers(raw.join(', '))).toBeNull();
});

it('a member that says nothing about the limit is left out', () => {
  expect(rateLimitMembers('"p";t=5, "q";r=2')).toEqual([{ name: 'q', remaining: 2 }]);
  expect(rateLimitMembers('policy;r=1')).toEqual([{ name: 'policy', remaining: 1 }]);
});
