import { describe, expect, it } from 'vitest';
import type { HandClock } from '../support/hand-clock.ts';
import { HOUR, MINUTE, overDays, wholeDays, type QuotaCase } from './day-quotas.ts';
import { seeded } from './limited-service.ts';
import { memoryRow } from './shared-row-in-memory.ts';
import { sampled } from '../support/length.ts';

const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000);
console.info(`day quotas: SEED=${seed}`);

const CASE: QuotaCase = { seed, limit: 600, share: 0.8, days: 4, liveEvery: 20 * MINUTE };

/** Never over the limit, live requests at once, and 90 % of the share used by every day's end. */
function expectPlanned(given: QuotaCase, stage: Awaited<ReturnType<typeof overDays>>): void {
  const { limit, share } = given;
  const days = wholeDays(stage);
  expect(days.length).toBeGreaterThanOrEqual(3);
  expect(stage.refused).toEqual([]);
  expect(Math.max(...days)).toBeLessThanOrEqual(limit);
  expect(Math.min(...days)).toBeGreaterThanOrEqual(0.9 * share * limit);
  expect(stage.live.deferred).toBe(0);
  expect(Math.max(...stage.live.waits)).toBeLessThan(5_000);
  // Who is put off is so for longer than max_wait, a quarter of an hour.
  expect(stage.deferrals).toBeLessThan(stage.workers * given.days * 96);
}

describe('a quota by day', () => {
  it.each<[string, Partial<QuotaCase>]>([
    ['that the profile states', {}],
    ['that the profile states, of which all may be used', { share: 1 }],
    ['beside a service whose clock is ahead', { share: 1, skew: 4_000 }],
    ['beside one whose clock is behind', { share: 1, skew: -4_000 }],
    ['through restarts', { share: 1, restartEvery: 100 * MINUTE }],
    ['that headers tell, with its end', { headers: 'ietf' }],
    ['that headers tell by the usual names', { headers: 'window' }],
    ['that headers tell, without its end', { headers: 'daily', share: 1 }],
  ])('%s is never exceeded, is used, and leaves some to live lanes', async (_name, more) => {
    const given = { ...CASE, ...more };
    expectPlanned(given, await overDays(given));
  });

  it('is one for all processes that share it', async () => {
    const random = seeded(seed);
    const row = (clock: HandClock) => memoryRow(clock, () => 0.3 + random(), 2_000);
    const given = { ...CASE, limit: 300, liveEvery: HOUR, shared: { row, processes: 3 } };
    expectPlanned(given, await overDays(given));
  });
});

describe('a quota by day of so few that hardly any can be left', () => {
  const told = [undefined, 'ietf', 'window', 'daily'] as const;

  it.for(
    sampled(
      [1, 2, 3].flatMap((limit) => told.map((headers) => ({ limit, headers }))),
      5,
    ),
  )('lets a backfill alone ask every day: $limit, told by $headers', async ({ limit, headers }) => {
    const alone = { ...CASE, limit, share: 1, days: 6, liveEvery: 1_000 * HOUR };
    const stage = await overDays(headers === undefined ? alone : { ...alone, headers });
    expect(stage.refused).toEqual([]);
    expect(stage.days.size).toBeGreaterThanOrEqual(6);
    expect(Math.max(...stage.days.values())).toBeLessThanOrEqual(limit);
  });
});

describe('a quota by month', () => {
  // The months of 28, 31 and 30 days, and a week.
  const MONTHS: QuotaCase = {
    ...CASE,
    period: 'month',
    begins: '2026-02-01T00:00:30.000Z',
    days: 96,
    limit: 900,
    liveEvery: 6 * HOUR,
  };

  const cases: [string, Partial<QuotaCase>][] = [
    ['that the profile states', {}],
    ['through restarts', { share: 1, restartEvery: 50 * HOUR }],
    ['that headers tell, with its end', { headers: 'ietf' }],
    ['that headers tell, with its end, through restarts', { headers: 'ietf', restartEvery: 50 * HOUR }],
    ['that headers tell by the usual names', { headers: 'window' }],
  ];

  it.each(sampled(cases, 2))('%s is never exceeded, is used, and leaves some to live lanes', async (_name, more) => {
    const given = { ...MONTHS, ...more };
    expectPlanned(given, await overDays(given));
  });

  it('is one for all processes that share it', async () => {
    const random = seeded(seed);
    const row = (clock: HandClock) => memoryRow(clock, () => 0.3 + random(), 2_000);
    const given = { ...MONTHS, limit: 300, liveEvery: 18 * HOUR, shared: { row, processes: 3 } };
    expectPlanned(given, await overDays(given));
  });
});
