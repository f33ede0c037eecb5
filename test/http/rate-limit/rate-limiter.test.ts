import { describe, expect, it } from 'vitest';
import { DeferredError } from '../../../src/model/errors.ts';
import type { Lane } from '../../../src/model/vocabulary.ts';
import type { Attempted } from '../../../src/http/rate-limit/rate-limiter.ts';
import { type RateDialect, rateDialectSchema } from '../../../src/config/profile/rate-dialect.ts';
import { HandClock } from '../../support/hand-clock.ts';
import { ask, factsOf, rateLimiterFor, newSeen, noLimit, tokenBucket } from './limited-service.ts';

type Headers = Record<string, string>;

/** Answers from a list, one per request, the last one for ever; notes when each request was sent. */
function scripted(clock: HandClock, answers: (() => { status: number; headers?: Headers })[]) {
  const sent: number[] = [];
  const attempt = async (dialect: RateDialect): Promise<Attempted<number>> => {
    sent.push(clock.monotonic());
    const next = answers[Math.min(sent.length, answers.length) - 1];
    await clock.sleep(5);
    const { status, headers = {} } = next?.() ?? { status: 200 };
    const date = { date: new Date(Math.floor(clock.now() / 1_000) * 1_000).toUTCString() };
    const limited = status === 429;
    const answer = { headers: { ...date, ...headers }, receivedAt: clock.now(), limited };
    return { result: status, facts: factsOf(dialect, answer) };
  };
  return { sent, attempt };
}

const ok = () => ({ status: 200 });
const refused = (headers: Headers) => () => ({ status: 429, headers });

/** Gaps between the sends of `count` requests, one after the other. */
async function gaps(dialect: unknown, answers: (clock: HandClock) => (() => { status: number; headers?: Headers })[]) {
  const clock = new HandClock('2026-11-20T08:00:00.700Z');
  const rateLimiter = rateLimiterFor(clock, { dialect: rateDialectSchema.parse(dialect) });
  const list = answers(clock);
  const service = scripted(clock, list);
  for (let request = 0; request < list.length; request += 1) {
    await clock.finish(rateLimiter.run('backfill', service.attempt));
  }
  return service.sent.slice(1).map((time, index) => time - (service.sent[index] ?? 0) - 5);
}

const inSeconds = (clock: HandClock, seconds: number) => Math.ceil(clock.now() / 1_000) + seconds;

describe('F019-F025 no request before a stated wait has ended', () => {
  const waits: [string, unknown, (clock: HandClock) => Headers, number][] = [
    ['F019 Retry-After in seconds', 'auto', () => ({ 'retry-after': '7' }), 7_000],
    [
      'F020 Retry-After as a date',
      'auto',
      (clock) => ({ 'retry-after': new Date(inSeconds(clock, 7) * 1_000).toUTCString() }),
      7_000,
    ],
    ['F021 Retry-After of nothing: a second all the same', 'auto', () => ({ 'retry-after': '0' }), 1_000],
    ['F021 Retry-After that cannot be read: a second', 'auto', () => ({ 'retry-after': '-5' }), 1_000],
    ['F025 Retry-After over a shorter reset', 'auto', () => ({ 'retry-after': '7', ratelimit: '"p";r=0;t=2' }), 7_000],
    ['the IETF list', 'auto', () => ({ ratelimit: '"p";r=0;t=6' }), 6_000],
    [
      'F024 the most restrictive of several',
      'auto',
      () => ({ ratelimit: '"a";r=0;t=2, "b";r=0;t=6, "c";r=9;t=9' }),
      6_000,
    ],
    ['the IETF dictionary', 'auto', () => ({ ratelimit: 'limit=9, remaining=0, reset=6' }), 6_000],
    ['GitHub without any header: a minute', 'github', () => ({}), 60_000],
    ['Contentful', 'contentful', () => ({ 'x-contentful-ratelimit-reset': '3' }), 3_000],
  ];
  it.each(waits)('%s', async (_name, dialect, headers, least) => {
    const [gap = 0] = await gaps(dialect, (clock) => [() => ({ status: 429, headers: headers(clock) }), ok]);
    expect(gap).toBeGreaterThanOrEqual(least);
    expect(gap).toBeLessThanOrEqual(least + 1_800);
  });

  it('a reset that is stated on a good answer counts as well, F043 and so does one on a redirect', async () => {
    for (const status of [200, 301]) {
      const [gap = 0] = await gaps('auto', () => [() => ({ status, headers: { ratelimit: '"p";r=0;t=6' } }), ok]);
      expect(gap).toBeGreaterThanOrEqual(6_000);
    }
  });

  it('F043 an answer from a cache holds nothing up', async () => {
    const headers = { age: '30', ratelimit: '"p";r=0;t=20' };
    expect(await gaps('auto', () => [() => ({ status: 200, headers }), ok])).toEqual([0]);
  });

  it('F027 the wait is right while the local clock is an hour off, and when it jumps during the wait', async () => {
    const clock = new HandClock('2026-11-20T08:00:00.000Z');
    const rateLimiter = rateLimiterFor(clock);
    const reset = { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(clock.now() / 1_000 + 30) };
    const date = new Date(clock.now()).toUTCString();
    clock.step(3_600_000);
    const service = scripted(clock, [refused({ ...reset, date }), ok]);
    await clock.finish(rateLimiter.run('backfill', service.attempt));
    clock.step(-7_200_000);
    await clock.finish(rateLimiter.run('backfill', service.attempt));
    expect(service.sent[1]).toBeGreaterThanOrEqual(30_000);
    expect(service.sent[1]).toBeLessThanOrEqual(32_000);
  });

  it('refusals without any statement are met with ever longer pauses', async () => {
    const no = refused({});
    expect(await gaps('none', () => [no, no, no, no, ok])).toEqual([1_000, 2_000, 4_000, 8_000]);
  });
});

describe('waiting', () => {
  it('F029 during an outage one request asks whether it is over, and the others wait for its answer', async () => {
    const clock = new HandClock();
    const rateLimiter = rateLimiterFor(clock);
    const outage = () => (clock.monotonic() < 600_000 ? refused({ 'retry-after': '60' })() : ok());
    const service = scripted(clock, [outage]);
    const worker = async () => {
      while ((await rateLimiter.run('backfill', service.attempt)) !== 200);
    };
    await clock.finish(Promise.all(Array.from({ length: 20 }, worker)));
    expect(service.sent.filter((time) => time < 600_000)).toHaveLength(10);
    expect(clock.monotonic()).toBeLessThan(661_000);
  });

  it('a good answer to a request from before the pause does not open the way for more than one', async () => {
    const clock = new HandClock();
    const rateLimiter = rateLimiterFor(clock);
    const sent: number[] = [];
    const answer =
      (status: number, ms: number, headers: Headers = {}) =>
      async (dialect: RateDialect): Promise<Attempted<null>> => {
        sent.push(clock.monotonic());
        await clock.sleep(ms);
        const limited = status === 429;
        const facts = factsOf(dialect, { headers, receivedAt: clock.now(), limited });
        return { result: null, facts };
      };
    for (let warm = 0; warm < 30; warm += 1) await clock.finish(rateLimiter.run('backfill', answer(200, 5)));
    const slow = rateLimiter.run('backfill', answer(200, 500));
    const no = rateLimiter.run('backfill', answer(429, 5, { 'retry-after': '5' }));
    await clock.advance(1_000);
    await Promise.all([slow, no]);
    sent.length = 0;
    const rest = Promise.all(Array.from({ length: 3 }, () => rateLimiter.run('backfill', answer(200, 50))));
    await clock.advance(4_020);
    expect(sent).toHaveLength(1);
    await clock.finish(rest);
  });

  it('leaves at once when its signal is aborted, with the reason, and takes no slot with it', async () => {
    const clock = new HandClock();
    const rateLimiter = rateLimiterFor(clock);
    const service = scripted(clock, [refused({ 'retry-after': '60' }), ok]);
    await clock.finish(rateLimiter.run('backfill', service.attempt));
    const stop = new AbortController();
    const waiting = rateLimiter.run('backfill', service.attempt, stop.signal);
    const reason = new Error('enough');
    stop.abort(reason);
    await expect(waiting).rejects.toBe(reason);
    await expect(rateLimiter.run('backfill', service.attempt, stop.signal)).rejects.toBe(reason);
    expect(clock.sleeping).toBe(0);
    await clock.finish(rateLimiter.run('backfill', service.attempt));
    expect(service.sent).toHaveLength(2);
  });

  it('T10 keeps the slot of a request that is aborted under way until the request itself has ended', async () => {
    const clock = new HandClock();
    const rateLimiter = rateLimiterFor(clock, { concurrency: 1 });
    const stop = new AbortController();
    let underWay = 0;
    let most = 0;
    const attempt = async () => {
      underWay += 1;
      most = Math.max(most, underWay);
      await clock.sleep(100);
      underWay -= 1;
      return { result: 'done', facts: null };
    };
    const first = rateLimiter.run('backfill', attempt, stop.signal);
    const second = rateLimiter.run('backfill', attempt);
    await clock.advance(50);
    stop.abort();
    await clock.finish(Promise.all([first, second]));
    expect(most).toBe(1);
  });

  it('an attempt that throws gives its slot back and passes its error on', async () => {
    const rateLimiter = rateLimiterFor(new HandClock(), { concurrency: 1 });
    const broken = new Error('reset by peer');
    await expect(rateLimiter.run('backfill', () => Promise.reject(broken))).rejects.toBe(broken);
    await expect(rateLimiter.run('backfill', () => Promise.resolve({ result: 1, facts: null }))).resolves.toBe(1);
  });
});

describe('a wait beyond max_wait', () => {
  it('defers the request and all that wait, with the time from which the service may be asked again', async () => {
    const clock = new HandClock();
    const rateLimiter = rateLimiterFor(clock, { maxWaitMs: 60_000 });
    const service = scripted(clock, [refused({ 'retry-after': '3600' })]);
    const first = rateLimiter.run('backfill', service.attempt);
    const others = [rateLimiter.run('backfill', service.attempt), rateLimiter.run('refetch', service.attempt)];
    const ended = Promise.allSettled([first, ...others]);
    const [one, ...rest] = await clock.finish(ended);
    expect(one).toEqual({ status: 'fulfilled', value: 429 });
    for (const each of rest) {
      const reason: unknown = each.status === 'rejected' ? each.reason : null;
      expect(reason).toBeInstanceOf(DeferredError);
      expect(reason).toMatchObject({ until: clock.now() + 3_600_000, hint: expect.stringContaining('max_wait') });
    }
    expect(rateLimiter.metrics().pausedUntil).toBe(clock.now() + 3_600_000);
    await expect(rateLimiter.run('refetch', service.attempt)).rejects.toBeInstanceOf(DeferredError);
    await clock.advance(3_550_000);
    await clock.finish(rateLimiter.run('refetch', service.attempt));
    expect(service.sent).toEqual([0, 3_600_005]);
  });
});

describe('F042 a restart', () => {
  it.each([
    ['a stated wait', refused({ 'retry-after': '600' })],
    ['a quota that is used up', () => ({ status: 200, headers: { ratelimit: '"p";r=0;t=600' } })],
  ])('within %s sends nothing before it has ended, and then one probe', async (_name, answer) => {
    const clock = new HandClock();
    const service = scripted(clock, [answer, ok]);
    let rateLimiter = rateLimiterFor(clock);
    await clock.finish(rateLimiter.run('backfill', service.attempt));
    for (let start = 0; start < 5; start += 1) {
      rateLimiter = rateLimiterFor(clock, { maxWaitMs: 30_000, restored: rateLimiter.state() });
      await expect(rateLimiter.run('backfill', service.attempt)).rejects.toBeInstanceOf(DeferredError);
      await clock.advance(60_000);
    }
    rateLimiter = rateLimiterFor(clock, { restored: rateLimiter.state() });
    const work = Promise.all(Array.from({ length: 5 }, () => rateLimiter.run('backfill', service.attempt)));
    await clock.advance(600_000 - clock.monotonic() + 6);
    expect(service.sent).toHaveLength(2);
    expect(service.sent[1]).toBeGreaterThanOrEqual(600_000);
    await clock.finish(work);
  });
});

async function order(lanes: Lane[]): Promise<Lane[]> {
  const clock = new HandClock();
  const rateLimiter = rateLimiterFor(clock, { concurrency: 1, requestsPerSecond: 10 });
  const served: Lane[] = [];
  const all = lanes.map((lane) =>
    rateLimiter.run(lane, () => {
      served.push(lane);
      return Promise.resolve({ result: null, facts: null });
    }),
  );
  await clock.finish(Promise.all(all));
  return served;
}

describe('lanes', () => {
  it('go in their order', async () => {
    const served = await order(['backfill', 'bulk', 'backfill', 'incremental', 'refetch']);
    expect(served).toEqual(['backfill', 'refetch', 'incremental', 'backfill', 'bulk']);
  });

  it('do not starve the lower ones: every fifth turn belongs to who has waited longest', async () => {
    const served = await order(['refetch', 'bulk', 'backfill', ...Array<Lane>(20).fill('refetch')]);
    expect(served.indexOf('bulk')).toBeLessThan(6);
    expect(served.indexOf('backfill')).toBeLessThan(11);
  });

  it('F041 twenty re-fetches pass a backfill of 500 pages at 2 requests a second, each within 15 s', async () => {
    const clock = new HandClock();
    const rateLimiter = rateLimiterFor(clock);
    const service = { clock, limiter: tokenBucket(2, 2), headers: 'ietf', latency: () => 20 };
    const seen = newSeen();
    const stop = new AbortController();
    const pages = Array.from({ length: 500 }, () =>
      rateLimiter.run('backfill', (dialect) => ask(service, seen, dialect), stop.signal),
    );
    const settled = Promise.allSettled(pages);
    await clock.advance(10_000);
    const waits: number[] = [];
    const refetch = async () => {
      const from = clock.monotonic();
      await rateLimiter.run('refetch', (dialect) => ask(service, seen, dialect));
      waits.push(clock.monotonic() - from);
    };
    const work: Promise<void>[] = [];
    for (let event = 0; event < 20; event += 1) {
      work.push(refetch());
      await clock.advance(1_000);
    }
    await clock.finish(Promise.all(work));
    stop.abort();
    await settled;
    expect(Math.max(...waits)).toBeLessThan(15_000);
    expect(seen.limited).toEqual([]);
  });

  it('leave a slot free for live work once there was any', async () => {
    const clock = new HandClock();
    const rateLimiter = rateLimiterFor(clock, { concurrency: 8 });
    const seen = newSeen();
    const service = { clock, limiter: noLimit, headers: 'none', latency: () => 50 };
    const stop = new AbortController();
    const worker = async () => {
      while (!stop.signal.aborted)
        await rateLimiter.run('bulk', (dialect) => ask(service, seen, dialect), stop.signal).catch(() => null);
    };
    const workers = Promise.all(Array.from({ length: 20 }, worker));
    await clock.advance(3_000);
    expect(seen.mostUnderWay).toBe(8);
    await clock.advance(100);
    await clock.finish(rateLimiter.run('refetch', (dialect) => ask(service, seen, dialect)));
    await clock.advance(1_000);
    expect(seen.underWay).toBe(7);
    stop.abort();
    await clock.finish(workers);
  });
});

describe('figures', () => {
  it('tell what was sent, refused, allowed and used', async () => {
    const clock = new HandClock();
    const rateLimiter = rateLimiterFor(clock);
    expect(rateLimiter.metrics()).toEqual({
      requests: 0,
      limited: 0,
      allowedPerSecond: null,
      pausedUntil: null,
    });
    const seen = newSeen();
    const service = { clock, limiter: tokenBucket(20, 20), headers: 'ietf', latency: () => 2 };
    const until = async () => {
      while (clock.monotonic() < 20_000) await rateLimiter.run('backfill', (dialect) => ask(service, seen, dialect));
    };
    await clock.finish(until());
    const figures = rateLimiter.metrics();
    expect(figures).toMatchObject({ requests: seen.arrivals.length, limited: 0, allowedPerSecond: 20 });
  });
});
