import { expect, it } from 'vitest';
import { rateDialectSchema, RATE_PRESET_NAMES } from '../../../src/config/profile/rate-dialect.ts';

it.each(RATE_PRESET_NAMES)('the preset %s is a dialect with Retry-After', (name) => {
  expect(rateDialectSchema.parse(name).headers).toContainEqual(
    expect.objectContaining({ at: 'retry-after', means: 'retry_after' }),
  );
});

it('an entry replaces that of the base for the same header, in any case', () => {
  const { headers } = rateDialectSchema.parse({
    base: 'github',
    headers: [{ name: 'X-RateLimit-Reset', means: 'reset', unit: 'ms' }],
  });
  const resets = headers.filter(({ at }) => at === 'x-ratelimit-reset');
  expect(resets).toMatchObject([{ means: 'reset', unit: 'ms' }]);
  expect(headers.map(({ at }) => at)).toContain('x-ratelimit-limit');
});

it('the wait without a stated one is the own, else that of the base, else a second', () => {
  expect(rateDialectSchema.parse({ base: 'github', limited_wait_ms: 5 }).limited_wait_ms).toBe(5);
  expect(rateDialectSchema.parse({ base: 'github' }).limited_wait_ms).toBe(60_000);
  expect(rateDialectSchema.parse('none').limited_wait_ms).toBe(1_000);
});

it.each(['nobody', { headers: [{ name: 'x', means: 'nothing' }] }, { body: [{ path: '', means: 'limit' }] }])(
  '%j is no dialect',
  (given) => {
    expect(rateDialectSchema.safeParse(given).success).toBe(false);
  },
);
