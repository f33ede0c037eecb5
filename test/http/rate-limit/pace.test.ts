import { describe, expect, it } from 'vitest';
import { HandClock } from '../../support/hand-clock.ts';
import { longOrShort, sampled } from '../../support/length.ts';
import {
  fixedWindow,
  rateLimiterFor,
  load,
  seeded,
  slidingWindow,
  tokenBucket,
  type Limiter,
} from './limited-service.ts';
import { between, keepsPace, pacedCases, run } from './pacing.ts';

describe('with headers: no 429, and at least 95 % of the rate over 30 s', () => {
  const all = [pacedCases('ietf', 20), pacedCases('legacy', 20), pacedCases('github', 20)];
  it.each(all.flat())('$name, $headers, $rate/s', keepsPace);

  const windows: [string, Limiter, number][] = [
    ['a sliding window of 10 s', slidingWindow(200, 10_000), 20],
    ['a sliding window of one second', slidingWindow(200, 1_000), 200],
    ['a fixed window of one second', fixedWindow(200, 1_000, 370), 200],
  ];
  it.each(longOrShort(windows, windows.slice(0, 1)))('%s, stated in the IETF fields', async (_name, limiter, rate) => {
    const seen = await run({ limiter, headers: 'ietf', latencyMs: 20 }, 30_000);
    expect(seen.limited).toEqual([]);
    expect(between(seen.arrivals, 0, 30_000)).toBeGreaterThanOrEqual(0.95 * 30 * rate);
  });

  it('loses little of 20 requests a second although the last of each second is left alone', async () => {
    const seen = await run({ limiter: fixedWindow(20, 1_000, 370), headers: 'ietf', latencyMs: 20 }, 30_000);
    expect(seen.limited).toEqual([]);
    expect(between(seen.arrivals, 0, 30_000)).toBeGreaterThanOrEqual(0.88 * 30 * 20);
  });

  it('fills what the slots allow where the latency is the limit', async () => {
    const seen = await run({ limiter: tokenBucket(200, 200), headers: 'ietf', latencyMs: 100 }, 30_000);
    expect(seen.limited).toEqual([]);
    expect(seen.mostUnderWay).toBe(8);
    expect(between(seen.arrivals, 0, 30_000)).toBeGreaterThanOrEqual(0.9 * 30 * 80);
  });
});

describe('without headers: at least 75 % of the rate after 10 s, 80 % after 20 s, and at most 1 % limited after 20 s', () => {
  const cases: [string, Limiter, number, number][] = [
    ['20/s from a token bucket', tokenBucket(20, 20), 20, 2],
    ['20/s from a large token bucket', tokenBucket(20, 200), 20, 20],
    ['20/s from a small token bucket', tokenBucket(20, 5), 20, 20],
    ['20/s in fixed windows of a second', fixedWindow(20, 1_000, 370), 20, 20],
  ];
  const fast: typeof cases = [['200/s from a token bucket', tokenBucket(200, 200), 200, 20]];
  it.each([...sampled(cases, 2), ...longOrShort(fast, [])])('%s', async (_name, limiter, rate, latencyMs) => {
    const seen = await run({ limiter, headers: 'none', latencyMs }, 60_000);
    const limited = between(seen.limited, 20_000, 60_000);
    const sent = between(seen.arrivals, 20_000, 60_000);
    expect(limited / sent).toBeLessThanOrEqual(0.01);
    expect(sent - limited).toBeGreaterThanOrEqual(0.8 * 40 * rate);
    const soon = between(seen.arrivals, 10_000, 20_000) - between(seen.limited, 10_000, 20_000);
    expect(soon).toBeGreaterThanOrEqual(0.75 * 10 * rate);
    expect(seen.limited.length / seen.arrivals.length).toBeLessThanOrEqual(0.015);
  });
});

describe('share: 0.5 uses half', () => {
  const stated: [string, Limiter, number][] = [
    ['ietf', tokenBucket(40, 40), 40],
    ['legacy', tokenBucket(40, 40), 40],
    ['github', tokenBucket(40, 80), 40],
    ['ietf', fixedWindow(400, 10_000), 40],
  ];
  it.each(sampled(stated, 2))('of what %s headers say', async (headers, limiter, rate) => {
    const seen = await run({ limiter, headers, options: { share: 0.5 } }, 40_000);
    const used = between(seen.arrivals, 10_000, 40_000) / (30 * rate);
    expect(used).toBeGreaterThan(0.45);
    expect(used).toBeLessThan(0.55);
  });

  const found: [string, Limiter][] = [
    ['a token bucket', tokenBucket(40, 40)],
    ['a small token bucket', tokenBucket(40, 10)],
  ];
  it.each(sampled(found, 2))('of what %s is found to allow', async (_name, limiter) => {
    const seen = await run({ limiter, headers: 'none', options: { share: 0.5 } }, 80_000);
    const used = between(seen.arrivals, 30_000, 80_000) / (50 * 40);
    expect(used).toBeGreaterThan(0.4);
    expect(used).toBeLessThan(0.56);
  });

  it('of what the settings say', async () => {
    const options = { share: 0.5, requestsPerSecond: 40 };
    const seen = await run({ limiter: tokenBucket(1_000, 1_000), headers: 'none', options }, 30_000);
    expect(between(seen.arrivals, 0, 30_000) / 600).toBeCloseTo(1, 1);
  });
});

describe('F031 capacity that changes', () => {
  it.each(['ietf', 'none'])(
    'settles within 10 s of a halving and uses a doubling within 30 s (%s)',
    async (headers) => {
      const clock = new HandClock();
      const rate = () => (clock.monotonic() < 60_000 ? 40 : clock.monotonic() < 120_000 ? 20 : 40);
      const limiter = tokenBucket(rate, 20);
      const service = { clock, limiter, headers, latency: () => 5 };
      const seen = await load(rateLimiterFor(clock), service, 160_000);
      const settled = between(seen.arrivals, 70_000, 120_000);
      expect(between(seen.limited, 70_000, 120_000) / settled).toBeLessThanOrEqual(0.01);
      expect(settled).toBeGreaterThan(0.85 * 50 * 20);
      expect(between(seen.arrivals, 150_000, 160_000)).toBeGreaterThan(0.8 * 10 * 40);
    },
  );
});

const misleading: Limiter = () => ({
  allowed: true,
  remaining: 10_000,
  limit: 10_000,
  resetMs: 10_000,
  retryMs: 0,
  policy: { requests: 10_000, windowMs: 1_000_000 },
});

it('F026 a remainder larger than its policy does not become a burst: at most 1.2 times q/w', async () => {
  const seen = await run({ limiter: misleading, headers: 'ietf' }, 30_000);
  expect(between(seen.arrivals, 0, 30_000)).toBeLessThanOrEqual(1.2 * 10 * 30);
  expect(between(seen.arrivals, 0, 30_000)).toBeGreaterThan(0.9 * 10 * 30);
});

it('F030 a limiter that refuses only every third request over the rate is kept to all the same', async () => {
  const random = seeded(3);
  const bucket = tokenBucket(20, 20);
  const limiter: Limiter = (at) => {
    const verdict = bucket(at);
    return { ...verdict, allowed: verdict.allowed || random() > 0.3 };
  };
  const seen = await run({ limiter, headers: 'none' }, 120_000);
  const limited = between(seen.limited, 60_000, 120_000);
  expect(limited / between(seen.arrivals, 60_000, 120_000)).toBeLessThanOrEqual(0.05);
  expect(between(seen.arrivals, 60_000, 120_000)).toBeGreaterThanOrEqual(0.6 * 60 * 20);
});

it('a service without any limit is not slowed down', async () => {
  const limiter = tokenBucket(1e9, 1e9);
  const seen = await run({ limiter, headers: 'none', latencyMs: 10 }, 5_000);
  expect(seen.mostUnderWay).toBe(8);
  expect(between(seen.arrivals, 0, 5_000)).toBeGreaterThan(0.85 * 5 * 800);
});

describe('answers that come in another order than they were counted', () => {
  it.each(sampled([1, 2, 3, 4, 5, 6], 3))('never make a window be overdrawn (seed %i)', async (seed) => {
    const clock = new HandClock();
    const random = seeded(seed);
    const limiter = fixedWindow(50 + Math.floor(100 * random()), 1_000 + Math.floor(3_000 * random()));
    const service = { clock, limiter, headers: seed % 2 ? 'ietf' : 'legacy', latency: () => 1 + 99 * random() ** 3 };
    const seen = await load(rateLimiterFor(clock, { concurrency: 16 }), service, 20_000);
    expect(seen.limited).toEqual([]);
    expect(seen.served).toBeGreaterThan(100);
  });
});
