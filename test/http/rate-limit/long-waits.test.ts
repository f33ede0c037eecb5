import { describe, expect, it } from 'vitest';
import { rateDialectSchema } from '../../../src/config/profile/rate-dialect.ts';
import type { RateLimiter } from '../../../src/http/rate-limit/rate-limiter.ts';
import { LONGEST_WAIT_MS } from '../../../src/http/rate-limit/answer-limits.ts';
import { DeferredError } from '../../../src/model/errors.ts';
import type { JsonValue } from '../../../src/model/json.ts';
import { HandClock } from '../../support/hand-clock.ts';
import { factsOf, rateLimiterFor } from './limited-service.ts';

const SECOND = 1_000;
const DAY = 86_400_000;
const MAX_WAIT = 60 * SECOND;
const START = Date.parse('2026-11-20T08:00:00.000Z');

/** Both sides of every limit that there is, or was, on how long a wait may be; all beyond `MAX_WAIT`. */
const LENGTHS = [
  MAX_WAIT + SECOND,
  ...[DAY, 31 * DAY, 366 * DAY, LONGEST_WAIT_MS].flatMap((limit) => [limit - SECOND, limit, limit + SECOND]),
  2 * LONGEST_WAIT_MS,
];

/** How a wait is written, by its form. */
const WRITERS: Readonly<Record<string, (ms: number) => string>> = {
  s: (ms) => String(ms / SECOND),
  ms: (ms) => String(ms),
  epoch_s: (ms) => String((START + ms) / SECOND),
  epoch_ms: (ms) => String(START + ms),
  iso: (ms) => new Date(START + ms).toISOString(),
  duration: (ms) => `${Math.floor(ms / 3_600_000)}h${Math.floor((ms % 3_600_000) / 60_000)}m${(ms % 60_000) / SECOND}s`,
  http_date: (ms) => new Date(START + ms).toUTCString(),
};

/** What an answer says. */
type Said = { headers?: Record<string, string>; body?: JsonValue };

/** The ways in which a service says how long to wait: a header in each unit, and what is read otherwise. */
const STATEMENTS: [name: string, dialect: unknown, answer: (ms: number) => Said][] = [
  ...Object.entries(WRITERS).map(([form, write]): [string, unknown, (ms: number) => Said] => [
    `a header in ${form}`,
    { base: 'none', headers: [{ name: 'x-wait', means: 'wait', unit: form === 'ms' ? 'ms' : 'auto' }] },
    (ms) => ({ headers: { 'x-wait': write(ms) } }),
  ]),
  ['the list of RateLimit', 'auto', (ms) => ({ headers: { ratelimit: `"p";r=0;t=${ms / SECOND}` } })],
  ['its dictionary', 'auto', (ms) => ({ headers: { ratelimit: `limit=9, remaining=0, reset=${ms / SECOND}` } })],
  [
    'a policy with a window alone',
    'auto',
    (ms) => ({ headers: { ratelimit: '"p";r=0', 'ratelimit-policy': `"p";q=9;w=${ms / SECOND}` } }),
  ],
  [
    'a reset of a quota that is used up',
    'auto',
    (ms) => ({ headers: { 'ratelimit-remaining': '0', 'ratelimit-reset': String(ms / SECOND) } }),
  ],
  ['a body', { body: [{ path: 'retry_after', means: 'wait' }] }, (ms) => ({ body: { retry_after: ms / SECOND } })],
];

/** When the next request may be sent, after one answer that says so. */
async function untilAfter(rateLimiter: RateLimiter, clock: HandClock, { headers = {}, body }: Said) {
  const answer = { headers, body, receivedAt: clock.now(), limited: false };
  await clock.finish(
    rateLimiter.run('backfill', async (dialect) => ({ result: null, facts: factsOf(dialect, answer) })),
  );
  return untilNow(rateLimiter);
}

async function untilNow(rateLimiter: RateLimiter): Promise<number> {
  const sent = rateLimiter.run('backfill', () => Promise.resolve({ result: 'sent', facts: null }));
  const ended = await sent.catch((error: unknown) => error);
  if (!(ended instanceof DeferredError)) throw new Error(`a request was not put off: ${String(ended)}`);
  return ended.until;
}

describe('a stated wait beyond max_wait', () => {
  it.each(STATEMENTS)('in %s puts off for as long as it says, however long', async (_name, dialect, answer) => {
    for (const length of LENGTHS) {
      const clock = new HandClock(START);
      const settings = { maxWaitMs: MAX_WAIT, dialect: rateDialectSchema.parse(dialect) };
      const rateLimiter = rateLimiterFor(clock, settings);
      const until = await untilAfter(rateLimiter, clock, answer(length));
      expect(until - START).toBe(Math.min(length, LONGEST_WAIT_MS));
      const restarted = rateLimiterFor(clock, { ...settings, restored: rateLimiter.state() });
      expect(await untilNow(restarted)).toBe(until);
    }
  });

  it.each([
    ['the last number that is surely seconds', '999999999'],
    ['the first that might be a Unix time, but a moment long past', '1000000000'],
    ['Unix seconds in 250 years', '9999999999'],
    ['Unix milliseconds in 250 years', '9999999999999'],
    ['more than a number holds', '9'.repeat(400)],
    ['a duration of as much', `${'9'.repeat(400)}h`],
    ['the last date', 'Fri, 31 Dec 9999 23:59:59 GMT'],
    ['the last of two values', `1, ${'9'.repeat(20)}`],
    ['the first of two dates', 'Fri, 31 Dec 9999 23:59:59 GMT, Fri, 20 Nov 2026 08:00:30 GMT'],
  ])('counts in full where it is absurd: %s', async (_name, value) => {
    const clock = new HandClock(START);
    const rateLimiter = rateLimiterFor(clock, { maxWaitMs: MAX_WAIT });
    const until = await untilAfter(rateLimiter, clock, { headers: { 'retry-after': value } });
    expect(until - START).toBe(LONGEST_WAIT_MS);
    expect(await untilNow(rateLimiterFor(clock, { maxWaitMs: MAX_WAIT, restored: rateLimiter.state() }))).toBe(until);
  });
});
