import { describe, expect, it } from 'vitest';
import { DeferredError } from '../../../src/model/errors.ts';
import type { RequestAttempt, Attempted, RateLimiter } from '../../../src/http/rate-limit/rate-limiter.ts';
import type { RateDialect } from '../../../src/config/profile/rate-dialect.ts';
import { HandClock } from '../../support/hand-clock.ts';
import { factsOf, rateLimiterFor } from './limited-service.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const THREE_AN_HOUR = { 'x-ratelimit-limit': '3', 'x-ratelimit-remaining': '2', 'x-ratelimit-reset': '3600' };

/** A service that states a quota in its first answers, and nothing any more from then on. */
function forgetful(clock: HandClock, stated: number) {
  const sent: number[] = [];
  const attempt = async (dialect: RateDialect): Promise<Attempted<null>> => {
    sent.push(clock.now());
    await clock.sleep(5);
    const headers = {
      date: new Date(clock.now()).toUTCString(),
      ...(sent.length <= stated ? THREE_AN_HOUR : {}),
    };
    const answer = { headers, receivedAt: clock.now(), limited: false };
    return { result: null, facts: factsOf(dialect, answer) };
  };
  return { sent, attempt };
}

/** True where a request was sent, false where it was put off. */
async function wasSent(clock: HandClock, rateLimiter: RateLimiter, attempt: RequestAttempt<null>) {
  try {
    await clock.finish(rateLimiter.run('backfill', attempt));
    return true;
  } catch (error) {
    if (error instanceof DeferredError) return false;
    throw error;
  }
}

describe('a quota of which no answer speaks any more', () => {
  it('is forgotten once its window has passed', async () => {
    const clock = new HandClock();
    const rateLimiter = rateLimiterFor(clock);
    const { sent, attempt } = forgetful(clock, 1);
    await wasSent(clock, rateLimiter, attempt);
    expect(rateLimiter.metrics().allowedPerSecond).toBeCloseTo(3 / 3_600, 6);
    await clock.advance(HOUR + MINUTE);
    const began = clock.now();
    for (let request = 0; request < 20; request += 1) await wasSent(clock, rateLimiter, attempt);
    expect(sent).toHaveLength(21);
    expect(clock.now() - began).toBeLessThan(MINUTE);
    expect(rateLimiter.metrics().allowedPerSecond).toBeNull();
  });
});

const DAY = 24 * HOUR;
const LIMIT = 200;

/** A service with a quota by UTC day that its headers state; notes requests by day. */
function daily(clock: HandClock, headersFor: (left: number, resetS: number) => Record<string, string>) {
  const days = new Map<string, number>();
  const attempt = async (dialect: RateDialect): Promise<Attempted<null>> => {
    await clock.sleep(5);
    const now = clock.now();
    const day = new Date(now).toISOString().slice(0, 10);
    const used = (days.get(day) ?? 0) + 1;
    days.set(day, used);
    const stated = headersFor(Math.max(0, LIMIT - used), Math.ceil((DAY - (now % DAY)) / 1_000));
    const headers = { date: new Date(now).toUTCString(), ...stated };
    const answer = { headers, receivedAt: now, limited: used > LIMIT };
    return { result: null, facts: factsOf(dialect, answer) };
  };
  return { days, attempt };
}

const STATED = {
  ietf: (left: number, reset: number) => ({
    ratelimit: `"day";r=${left};t=${reset}`,
    'ratelimit-policy': `"day";q=${LIMIT};w=86400`,
  }),
  window: (left: number) => ({ 'x-ratelimit-limit-day': `${LIMIT}`, 'x-ratelimit-remaining-day': `${left}` }),
};

describe('a quota by day that headers state', () => {
  it.each([
    ['ietf', 1, 199],
    ['ietf', 0.75, 150],
    ['window', 1, 199],
  ] as const)(
    '%s: is used at once up to a share of %d and deferred to its reset, also by new processes',
    async (form, share, used) => {
      const clock = new HandClock('2026-11-20T01:00:00.000Z');
      const { days, attempt } = daily(clock, STATED[form]);
      let restored: string | undefined;
      for (let hours = 0; hours < 72; hours += 1) {
        const rateLimiter = rateLimiterFor(clock, {
          maxWaitMs: MINUTE,
          share,
          ...(restored === undefined ? {} : { restored }),
        });
        while (await wasSent(clock, rateLimiter, attempt));
        restored = rateLimiter.state();
        await clock.advance(HOUR);
      }
      const counts = [...days.values()];
      expect(counts[0]).toBeGreaterThanOrEqual(used - 1);
      expect(Math.max(...counts)).toBeLessThanOrEqual(share < 1 ? used + 1 : LIMIT);
      expect(counts.length).toBeGreaterThanOrEqual(3);
    },
  );
});
