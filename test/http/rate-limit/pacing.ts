import { expect } from 'vitest';
import type { RateLimiterOptions } from '../../../src/http/rate-limit/rate-limiter.ts';
import { HandClock } from '../../support/hand-clock.ts';
import {
  fixedWindow,
  rateLimiterFor,
  load,
  seeded,
  tokenBucket,
  type Limiter,
  type Seen,
  type Service,
} from './limited-service.ts';

export interface Case {
  limiter: Limiter;
  headers: Service['headers'];
  concurrency?: number;
  latencyMs?: number;
  options?: Partial<RateLimiterOptions>;
}

/** Loads a rate limiter with requests for so many milliseconds of a hand-wound clock. */
export async function run(given: Case, ms: number): Promise<Seen> {
  const clock = new HandClock('2026-11-20T08:00:00.123Z');
  const random = seeded(7);
  const latency = () => ((given.latencyMs ?? 2) / 2) * (0.5 + random());
  const service = { clock, limiter: given.limiter, headers: given.headers, latency };
  const rateLimiter = rateLimiterFor(clock, { concurrency: given.concurrency ?? 8, ...given.options });
  return load(rateLimiter, service, ms);
}

/** How many of the times lie in a span. */
export function between(times: number[], from: number, to: number): number {
  return times.filter((time) => time >= from && time < to).length;
}

const LIMITERS: readonly [name: string, (rate: number) => Limiter, concurrency: number, latencyMs: number][] = [
  ['a token bucket, one request at a time', (rate) => tokenBucket(rate, rate), 1, 1],
  ['a token bucket of twice the rate', (rate) => tokenBucket(rate, 2 * rate), 8, 30],
  ['a fixed window of 10 s', (rate) => fixedWindow(10 * rate, 10_000, 3_700), 8, 20],
];

interface PacedCase extends Case {
  name: string;
  rate: number;
}

/** Each kind of limiter, at a rate per second that these headers state. */
export function pacedCases(headers: string, rate: number): PacedCase[] {
  return LIMITERS.map(([name, limiter, concurrency, latencyMs]) => ({
    name,
    headers,
    rate,
    limiter: limiter(rate),
    concurrency,
    latencyMs,
  }));
}

/** No 429, and at least 95 % of the rate over 30 s. */
export async function keepsPace(given: PacedCase): Promise<void> {
  const seen = await run(given, 30_000);
  expect(seen.limited).toEqual([]);
  expect(between(seen.arrivals, 0, 30_000)).toBeGreaterThanOrEqual(0.95 * 30 * given.rate);
}
