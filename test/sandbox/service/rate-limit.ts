import type { Clock } from '../../../src/model/clock.ts';
import type { AnswerHeaders } from './answer.ts';

/** May be changed at run time. */
export interface Rate {
  /** Requests per second; null for no limit. */
  rate: number | null;
  /** Requests that may come at once; if null, the rate itself, and at least 1. */
  burst: number | null;
  /** Requests that may be under way at once; more are answered with 429. */
  concurrency: number | null;
}

/** The limiter's answer to one request. */
interface RateVerdict {
  allowed: boolean;
  headers: AnswerHeaders;
}

export type RateLimiter = ReturnType<typeof rateLimiter>;

/** State of the bucket, for the headers. */
interface CallerUsage {
  rate: number;
  burst: number;
  tokens: number;
}

/** Rounding error of sums of doubles: a client that comes back at the named moment is let in. */
const ROUNDING = 1e-6;

/** A token bucket over all requests of the account. A refused request takes nothing. */
export function rateLimiter(start: Rate, clock: Clock) {
  let limits = start;
  let tokens = burstOf(start);
  let filledAt = clock.monotonic();
  const fill = () => {
    const now = clock.monotonic();
    tokens = Math.min(burstOf(limits), tokens + ((now - filledAt) / 1_000) * (limits.rate ?? 0));
    filledAt = now;
  };
  return {
    take: (inFlight: number): RateVerdict => {
      if (inFlight > (limits.concurrency ?? Number.POSITIVE_INFINITY)) return refused(1_000, {});
      if (limits.rate === null) return { allowed: true, headers: {} };
      fill();
      const allowed = tokens >= 1 - ROUNDING;
      if (allowed) tokens = Math.max(0, tokens - 1);
      const headers = rateHeaders({ rate: limits.rate, burst: burstOf(limits), tokens });
      if (allowed) return { allowed, headers };
      return refused(((1 - tokens) / limits.rate) * 1_000, headers);
    },
    set: (rate: Partial<Rate>): void => {
      fill();
      if (limits.rate === null) tokens = Number.POSITIVE_INFINITY;
      limits = { ...limits, ...rate };
      tokens = Math.min(tokens, burstOf(limits));
    },
  };
}

/** The headers of the IETF draft. */
function rateHeaders(usage: CallerUsage): AnswerHeaders {
  const { quota, window } = policyOf(usage.rate);
  return {
    'ratelimit-policy': `"default";q=${quota};w=${window}`,
    ratelimit: `"default";r=${Math.floor(usage.tokens)};t=${secondsToFull(usage)}`,
  };
}

/** A 429 whose `Retry-After` is in whole seconds. */
function refused(waitMs: number, headers: AnswerHeaders): RateVerdict {
  const seconds = Math.max(1, Math.ceil(waitMs / 1_000));
  return { allowed: false, headers: { ...headers, 'retry-after': String(seconds) } };
}

function burstOf(limits: Rate): number {
  if (limits.rate === null) return Number.POSITIVE_INFINITY;
  return Math.max(1, Math.floor(limits.burst ?? limits.rate));
}

/** The rate as a quota over whole seconds: 20/s is 20 in 1 s, 0.5/s is 1 in 2 s. */
function policyOf(rate: number): { quota: number; window: number } {
  for (let window = 1; window <= 3_600; window += 1) {
    const quota = rate * window;
    if (quota >= 1 && Math.abs(quota - Math.round(quota)) < 1e-6) return { quota: Math.round(quota), window };
  }
  return { quota: Math.max(1, Math.floor(rate * 3_600)), window: 3_600 };
}

function secondsToFull({ burst, tokens, rate }: CallerUsage): number {
  return Math.max(1, Math.ceil((burst - tokens) / rate));
}
