import { array, assert, double, integer, property, record } from 'fast-check';
import { parseItem, parseList } from 'structured-headers';
import { describe, expect, it } from 'vitest';
import type { Rate, RateDialect } from '../../src/sandbox/rate-limit.ts';
import { RATE_DIALECTS, RETRY_AFTER_FORMS, rateLimiter } from '../../src/sandbox/rate-limit.ts';
import { handClock } from './hand-clock.ts';
import { ask, sandboxFor } from './service-client.ts';

const OPEN: Rate = { rate: null, burst: null, concurrency: null };

describe('the limiter', () => {
  it('never lets more than burst + rate x time through, in any window', () => {
    const plan = record({
      rate: double({ min: 0.2, max: 300, noNaN: true }),
      burst: integer({ min: 1, max: 50 }),
      gaps: array(integer({ min: 0, max: 400 }), { minLength: 1, maxLength: 200 }),
    });
    assert(
      property(plan, ({ rate, burst, gaps }) => {
        const clock = handClock();
        const limiter = rateLimiter({ ...OPEN, rate, burst }, 'none', 'none', clock);
        const passed: number[] = [];
        for (const gap of gaps) {
          clock.wind(gap);
          if (limiter.take(1).allowed) passed.push(clock.monotonic());
        }
        for (const [first, from] of passed.entries()) {
          for (const [index, to] of passed.entries()) {
            if (index < first) continue;
            expect(index - first + 1).toBeLessThanOrEqual(burst + ((to - from) / 1_000) * rate + 1e-6);
          }
        }
      }),
      { numRuns: 50, seed: 7 },
    );
  });

  it.for(RETRY_AFTER_FORMS)('lets a client in that came back when it was told to (%s)', (form) => {
    for (const rate of [0.3, 1, 20, 200]) {
      const clock = handClock(Date.UTC(2026, 0, 1) + 377);
      const limiter = rateLimiter({ ...OPEN, rate, burst: 1 }, 'ietf', form, clock);
      expect(limiter.take(1).allowed).toBe(true);
      const refused = limiter.take(1);
      expect(refused.allowed).toBe(false);
      const told = refused.headers['retry-after'];
      const text = String(told);
      const wait = /^\d+$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - clock.now();
      expect(told === undefined).toBe(form === 'none');
      clock.wind(form === 'none' ? (refused.notBefore ?? 0) - clock.monotonic() : wait);
      expect(limiter.take(1).allowed).toBe(true);
    }
  });

  it('halves and doubles at run time, and counts what is under way', () => {
    const clock = handClock();
    const limiter = rateLimiter({ ...OPEN, rate: 10, burst: 10 }, 'none', 'none', clock);
    const allowed = (seconds: number) => {
      let count = 0;
      for (let ms = 0; ms < seconds * 1_000; ms += 10) {
        clock.wind(10);
        if (limiter.take(1).allowed) count += 1;
      }
      return count;
    };
    allowed(5);
    expect(allowed(10)).toBeCloseTo(100, -1);
    limiter.set({ rate: 5 });
    expect(Math.abs(allowed(10) - 50)).toBeLessThanOrEqual(1);
    limiter.set({ rate: null, concurrency: 2 });
    expect([limiter.take(2).allowed, limiter.take(3).allowed]).toEqual([true, false]);
  });
});

async function headersOf(rateHeaders: RateDialect): Promise<Headers> {
  const sandbox = await sandboxFor({ clock: handClock(Date.UTC(2026, 0, 1)), rate: 20, burst: 10, rateHeaders });
  const { headers } = await ask(sandbox, '/v1/content');
  return headers;
}

describe('rate headers', () => {
  it('F024 ietf: structured lists of policy and standing', async () => {
    const headers = await headersOf('ietf');
    const [[, policy] = []] = parseList(headers.get('ratelimit-policy') ?? '');
    const [[name, standing] = []] = parseList(headers.get('ratelimit') ?? '');
    expect(name).toBe('default');
    expect(Object.fromEntries(policy ?? [])).toEqual({ q: 20, w: 1 });
    expect(Object.fromEntries(standing ?? [])).toEqual({ r: 9, t: 1 });
  });

  it('legacy: reset is a number of seconds', async () => {
    const headers = await headersOf('legacy');
    const values = ['limit', 'remaining', 'reset'].map((name) => parseItem(headers.get(`ratelimit-${name}`) ?? '')[0]);
    expect(values).toEqual([10, 9, 1]);
  });

  it('github: reset is a moment', async () => {
    const headers = await headersOf('github');
    const values = ['limit', 'remaining', 'reset'].map((name) => Number(headers.get(`x-ratelimit-${name}`)));
    expect(values).toEqual([10, 9, Date.UTC(2026, 0, 1) / 1_000 + 1]);
  });

  it('none: nothing is told', async () => {
    const names = [...(await headersOf('none')).keys()];
    expect(names.filter((name) => name.includes('ratelimit'))).toEqual([]);
  });

  it.for(RATE_DIALECTS)('are on the 429 as well, and the log knows who came early (%s)', async (rateHeaders) => {
    const sandbox = await sandboxFor({ clock: handClock(), rate: 1, burst: 1, rateHeaders });
    expect((await ask(sandbox, '/v1/content')).status).toBe(200);
    const refused = await ask(sandbox, '/v1/content');
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1']);
    expect([...refused.headers.keys()].some((name) => name.includes('ratelimit'))).toBe(rateHeaders !== 'none');
    expect(sandbox.requests.early).toBe(0);
    await ask(sandbox, '/v1/content');
    expect([sandbox.requests.early, sandbox.requests.byStatus[429], sandbox.requests.total]).toEqual([1, 2, 3]);
    expect(sandbox.requests.entries().map(({ status, resource }) => [status, resource])).toEqual([
      [200, 'content'],
      [429, 'content'],
      [429, 'content'],
    ]);
    sandbox.setRate({ rate: null });
    expect((await ask(sandbox, '/v1/content')).status).toBe(200);
  });

  it('F064 F027 every answer carries the date of the service, not of this machine', async () => {
    const start = Date.UTC(2026, 0, 1);
    const sandbox = await sandboxFor({ clock: handClock(start), clockSkew: -3_600_000 });
    const { headers } = await ask(sandbox, '/v1/content');
    expect(Date.parse(headers.get('date') ?? '')).toBe(start - 3_600_000);
  });
});
