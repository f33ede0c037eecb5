import { expect, it } from 'vitest';
import { periodAround } from '../../src/source/quota-fields.ts';
import { rateDialectSchema } from '../../src/source/rate-dialect.ts';

const HOUR = 3_600_000;

function quotasOf(...quotas: unknown[]) {
  return rateDialectSchema.parse({ base: 'none', quotas }).quotas;
}

it('a quota is a number of requests per day or month, from midnight UTC where nothing else is said', () => {
  expect(quotasOf('10000/day', { limit: '200000 / month', reset: '08:30', zone: '+02:00' })).toEqual([
    { name: '10000/day', requests: 10_000, period: 'day', reset: 0, zone: 'UTC' },
    { name: '200000/month 08:30 +02:00', requests: 200_000, period: 'month', reset: 8.5 * HOUR, zone: '+02:00' },
  ]);
});

it.each([
  '0/day',
  '10/hour',
  '-5/day',
  'many/day',
  { limit: '5/day', reset: '24:00' },
  { limit: '5/day', zone: 'Mars' },
])('%j is none', (given) => {
  expect(rateDialectSchema.safeParse({ quotas: [given] }).success).toBe(false);
});

it.each([
  ['day', 'UTC', 0, '2026-03-01T00:00:00Z', '2026-03-01T00:00:00Z', '2026-03-02T00:00:00Z'],
  ['day', 'UTC', 8, '2026-03-01T07:59:59Z', '2026-02-28T08:00:00Z', '2026-03-01T08:00:00Z'],
  ['day', 'America/Los_Angeles', 0, '2026-01-01T00:00:00Z', '2025-12-31T08:00:00Z', '2026-01-01T08:00:00Z'],
  // The clocks are put forward, and put back.
  ['day', 'Europe/Zurich', 0, '2026-03-29T12:00:00Z', '2026-03-28T23:00:00Z', '2026-03-29T22:00:00Z'],
  ['day', 'Europe/Zurich', 0, '2026-10-25T12:00:00Z', '2026-10-24T22:00:00Z', '2026-10-25T23:00:00Z'],
  ['month', 'UTC', 0, '2026-02-28T23:59:59Z', '2026-02-01T00:00:00Z', '2026-03-01T00:00:00Z'],
  ['month', 'Europe/Zurich', 6, '2026-12-31T22:59:59Z', '2026-12-01T05:00:00Z', '2027-01-01T05:00:00Z'],
] as const)('the %s of %s that begins at %s o’clock around %s', (period, zone, hour, now, from, until) => {
  const around = periodAround({ period, zone, reset: hour * HOUR }, Date.parse(now));
  expect(new Date(around.from).toISOString().replace('.000', '')).toBe(from);
  expect(new Date(around.until).toISOString().replace('.000', '')).toBe(until);
});
