import {
  BudgetRateLimiter,
  type AnswerFacts,
  type Attempted,
  type RateLimiter,
  type RateLimiterOptions,
} from '../../../src/http/rate-limit/rate-limiter.ts';
import type { Lane } from '../../../src/model/vocabulary.ts';
import { readAnswerLimits } from '../../../src/http/rate-limit/answer-limits.ts';
import { rateDialectSchema, type RateDialect } from '../../../src/config/profile/rate-dialect.ts';
import type { HandClock } from '../../support/hand-clock.ts';

/** What a limiter says to one request. */
export interface Verdict {
  allowed: boolean;
  remaining: number;
  limit: number;
  /** Milliseconds until all is there again. */
  resetMs: number;
  /** Milliseconds until a request would be allowed. */
  retryMs: number;
  policy: { requests: number; windowMs: number };
}

export type Limiter = (at: number) => Verdict;

/** Refills continuously; time to a reset is time to full, as in the sandbox. */
export function tokenBucket(rate: number | (() => number), burst: number): Limiter {
  const current = typeof rate === 'number' ? () => rate : rate;
  let tokens = burst;
  let filledAt = 0;
  return (at) => {
    tokens = Math.min(burst, tokens + ((at - filledAt) / 1_000) * current());
    filledAt = at;
    const allowed = tokens >= 1;
    if (allowed) tokens -= 1;
    return {
      allowed,
      remaining: Math.floor(tokens),
      limit: burst,
      resetMs: ((burst - tokens) / current()) * 1_000,
      retryMs: (Math.max(0, 1 - tokens) / current()) * 1_000,
      policy: { requests: current(), windowMs: 1_000 },
    };
  };
}

/** All comes back at once at whole multiples of the window. */
export function fixedWindow(limit: number, windowMs: number, phaseMs = 0): Limiter {
  let window = -1;
  let used = 0;
  return (at) => {
    const now = Math.floor((at + phaseMs) / windowMs);
    if (now !== window) used = 0;
    window = now;
    const allowed = used < limit;
    if (allowed) used += 1;
    const resetMs = (now + 1) * windowMs - (at + phaseMs);
    return {
      allowed,
      remaining: limit - used,
      limit,
      resetMs,
      retryMs: resetMs,
      policy: { requests: limit, windowMs },
    };
  };
}

/** A request comes back one window after it was counted. */
export function slidingWindow(limit: number, windowMs: number): Limiter {
  let counted: number[] = [];
  return (at) => {
    counted = counted.filter((time) => time > at - windowMs);
    const allowed = counted.length < limit;
    if (allowed) counted.push(at);
    const oldest = (counted[0] ?? at) + windowMs - at;
    const newest = (counted.at(-1) ?? at) + windowMs - at;
    const remaining = limit - counted.length;
    return { allowed, remaining, limit, resetMs: newest, retryMs: oldest, policy: { requests: limit, windowMs } };
  };
}

export function noLimit(): Verdict {
  const policy = { requests: 1, windowMs: 1 };
  return { allowed: true, remaining: 1, limit: 1, resetMs: 0, retryMs: 0, policy };
}

const seconds = (ms: number) => Math.max(1, Math.ceil(ms / 1_000));

export const HEADER_FORMS: Readonly<Record<string, (verdict: Verdict, now: number) => Record<string, string>>> = {
  ietf: ({ remaining, resetMs, policy }) => ({
    ratelimit: `"default";r=${remaining};t=${seconds(resetMs)}`,
    'ratelimit-policy': `"default";q=${policy.requests};w=${policy.windowMs / 1_000}`,
  }),
  legacy: ({ remaining, resetMs, limit }) => ({
    'ratelimit-limit': String(limit),
    'ratelimit-remaining': String(remaining),
    'ratelimit-reset': String(seconds(resetMs)),
  }),
  github: ({ remaining, resetMs, limit }, now) => ({
    'x-ratelimit-limit': String(limit),
    'x-ratelimit-remaining': String(remaining),
    'x-ratelimit-reset': String(Math.ceil((now + resetMs) / 1_000)),
  }),
  none: () => ({}),
};

export interface Service {
  clock: HandClock;
  limiter: Limiter;
  headers: keyof typeof HEADER_FORMS;
  /** One way, in milliseconds; drawn for every request and direction. */
  latency: () => number;
  /** Whether a 429 carries `Retry-After`. */
  retryAfter?: boolean;
}

/** What the service saw. */
export interface Seen {
  arrivals: number[];
  limited: number[];
  served: number;
  underWay: number;
  mostUnderWay: number;
}

export function newSeen(): Seen {
  return { arrivals: [], limited: [], served: 0, underWay: 0, mostUnderWay: 0 };
}

/** One request to the simulated service, as an attempt for the rate limiter. */
export async function ask(service: Service, seen: Seen, dialect: RateDialect): Promise<Attempted<boolean>> {
  const { clock } = service;
  seen.underWay += 1;
  seen.mostUnderWay = Math.max(seen.mostUnderWay, seen.underWay);
  await clock.sleep(service.latency());
  const verdict = service.limiter(clock.monotonic());
  const now = clock.now();
  seen.arrivals.push(clock.monotonic());
  if (verdict.allowed) seen.served += 1;
  else seen.limited.push(clock.monotonic());
  const headers: Record<string, string> = {
    date: new Date(Math.floor(now / 1_000) * 1_000).toUTCString(),
    ...HEADER_FORMS[service.headers]?.(verdict, now),
  };
  if (!verdict.allowed && service.retryAfter !== false) headers['retry-after'] = String(seconds(verdict.retryMs));
  await clock.sleep(service.latency());
  seen.underWay -= 1;
  const facts = factsOf(dialect, { headers, receivedAt: clock.now(), limited: !verdict.allowed });
  return { result: verdict.allowed, facts };
}

/** What the rate limiter is handed of an answer, its limits read once by the dialect. */
export function factsOf(
  dialect: RateDialect,
  { headers, body, receivedAt, ...facts }: Omit<AnswerFacts, 'limits'> & Parameters<typeof readAnswerLimits>[0],
): AnswerFacts {
  return { ...facts, receivedAt, limits: readAnswerLimits({ headers, body, receivedAt }, dialect) };
}

export function rateLimiterFor(clock: HandClock, options: Partial<RateLimiterOptions> = {}): RateLimiter {
  const dialect = rateDialectSchema.parse('auto');
  return new BudgetRateLimiter({
    clock,
    dialect,
    share: 1,
    concurrency: 8,
    maxWaitMs: 900_000,
    random: () => 0,
    ...options,
  });
}

/** Workers that always want the next request, for `ms` on the hand clock. */
export async function load(
  rateLimiter: RateLimiter,
  service: Service,
  ms: number,
  lane: Lane = 'backfill',
): Promise<Seen> {
  const seen = newSeen();
  const end = new AbortController();
  const worker = async () => {
    while (!end.signal.aborted)
      await rateLimiter.run(lane, (dialect) => ask(service, seen, dialect), end.signal).catch(() => undefined);
  };
  const workers = Array.from({ length: 12 }, worker);
  await service.clock.advance(ms);
  end.abort();
  await service.clock.advance(60_000);
  await Promise.all(workers);
  return seen;
}

/** Numbers from 0 to 1 that are the same in every run: mulberry32. */
export function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
