import { describe, expect, it } from 'vitest';
import { SyncError } from '../../../src/model/errors.ts';
import { HandClock } from '../../support/hand-clock.ts';
import { longOrShort, sampled } from '../../support/length.ts';
import { fixedWindow, rateLimiterFor, noLimit, slidingWindow, tokenBucket, type Limiter } from './limited-service.ts';
import { memoryRow } from './shared-row-in-memory.ts';
import { sharing } from './sharing.ts';

function between(times: number[], from: number, to: number): number {
  return times.filter((time) => time >= from && time < to).length;
}

function sum(waits: Map<string, number[]>): number {
  return [...waits.values()].flat().length;
}

describe('a budget that several processes share: no 429, and at least 95 % of the rate', () => {
  const cases: [string, Limiter, number, number][] = [
    ['a token bucket of 20/s', tokenBucket(20, 20), 20, 4],
    ['a token bucket of 50/s', tokenBucket(50, 50), 50, 4],
    ['a token bucket of 20/s, 12 processes', tokenBucket(20, 20), 20, 12],
    ['a fixed window of 10 s', fixedWindow(500, 10_000, 3_700), 50, 4],
    ['a sliding window of 10 s', slidingWindow(500, 10_000), 50, 4],
  ];
  const faster: typeof cases = [
    ['a token bucket of 100/s', tokenBucket(100, 100), 100, 4],
    ['a token bucket of 50/s, 12 processes', tokenBucket(50, 50), 50, 12],
  ];
  it.each([...sampled(cases, 2), ...longOrShort(faster, [])])('%s', async (_name, limiter, rate, processes) => {
    const { clock, seen, join, end } = sharing({ limiter, headers: 'ietf' });
    const members = Array.from({ length: processes }, join);
    for (const member of members) member.work('backfill', 5);
    await clock.advance(12_000);
    await end();
    expect(seen.limited).toEqual([]);
    expect(between(seen.arrivals, 0, 12_000)).toBeGreaterThanOrEqual(0.95 * 12 * rate);
    const each = members.map(({ waits }) => sum(waits));
    expect(Math.min(...each)).toBeGreaterThan(0.3 * Math.max(...each));
  });
});

const down = () => Promise.reject(new SyncError('warehouse_unreachable', 'gone', { recovery: 'stop', hint: 'wait' }));
const unheard = () => Promise.resolve({ result: 'sent', facts: null });

describe('what one process is told', () => {
  it('holds for all of them at once, and one request goes first when the wait is over', async () => {
    let refuseAt = Number.POSITIVE_INFINITY;
    const limiter: Limiter = (at) => {
      const refused = at >= refuseAt && at < refuseAt + 5_000;
      return { ...noLimit(), allowed: !refused, remaining: refused ? 0 : 1, retryMs: 5_000 };
    };
    const { clock, seen, join, end } = sharing({ limiter, headers: 'none' });
    const members = Array.from({ length: 4 }, join);
    for (const member of members) member.work('backfill', 4);
    await clock.advance(3_000);
    refuseAt = 3_000;
    await clock.advance(6_000);
    await end();
    const [told = 0] = seen.limited;
    // What was under way, and what was granted while the row was being written.
    expect(seen.limited.length).toBeLessThanOrEqual(16);
    const after = seen.arrivals.filter((at) => at > told + 60);
    expect((after[0] ?? 0) - told).toBeGreaterThan(4_950);
    expect((after[1] ?? 0) - (after[0] ?? 0)).toBeGreaterThan(10);
    expect(members.map(({ rateLimiter }) => rateLimiter.metrics().pausedUntil)).toEqual([null, null, null, null]);
  });
});

describe('slots', () => {
  it.each([
    ['as many for each process', null, 16],
    ['no more than the sum that is set, over all processes', 8, 8],
  ])('are %s', async (_name, concurrencyTotal, most) => {
    const options = { concurrency: 4, concurrencyTotal };
    const { clock, seen, join, end } = sharing({ limiter: noLimit, headers: 'none', latencyMs: 200, options });
    const members = Array.from({ length: 4 }, join);
    for (const member of members) member.work('backfill', 8);
    await clock.advance(20_000);
    await end();
    const each = members.map(({ waits }) => sum(waits));
    expect(seen.mostUnderWay).toBe(most);
    // So many under way, each of which takes 200 ms.
    expect(between(seen.arrivals, 10_000, 20_000)).toBeGreaterThan(0.85 * 10 * 5 * most);
    expect(Math.min(...each)).toBeGreaterThan(0.3 * Math.max(...each));
  });

  it('are cut for all processes by what one of them is refused, and by one that is gone', async () => {
    let refuse = false;
    const limiter: Limiter = () => ({ ...noLimit(), allowed: !refuse, retryMs: 1_000 });
    const { clock, seen, row, join, end } = sharing({ limiter, headers: 'none', latencyMs: 200 });
    const slots = (): unknown => Math.floor(JSON.parse(row.text()).slots);
    const [first, second] = [join(), join()];
    first.work('backfill', 8);
    second.work('backfill', 8);
    await clock.advance(10_000);
    expect(slots()).toBe(16);
    refuse = true;
    await clock.advance(150);
    refuse = false;
    await clock.advance(250);
    expect(slots()).toBe(14);
    expect(seen.limited.length).toBeGreaterThan(0);
    second.freeze();
    await clock.advance(10_000);
    expect(slots()).toBe(8);
    second.thaw();
    await end();
  });

  it('of a process that is gone come back, and it may go on when it was only frozen', async () => {
    const { clock, seen, join, end } = sharing({ limiter: noLimit, headers: 'none', options: { concurrency: 1 } });
    const [frozen, other] = [join(), join()];
    const answer = Promise.withResolvers<void>();
    const slow = frozen.rateLimiter.run('backfill', () => answer.promise.then(() => ({ result: 'slow', facts: null })));
    await clock.advance(1_000);
    frozen.freeze();
    const asked = clock.monotonic();
    await clock.finish(other.once('backfill'));
    // So long a process may not be heard of.
    expect(clock.monotonic() - asked).toBeGreaterThan(4_000);
    expect(clock.monotonic() - asked).toBeLessThan(5_500);
    answer.resolve();
    frozen.thaw();
    expect(await clock.finish(slow)).toBe('slow');
    expect(await clock.finish(frozen.once('backfill'))).toBe(true);
    expect(seen.mostUnderWay).toBe(1);
    await end();
  });
});

describe('where the database does not answer', () => {
  it('and says so, all that wait are told; the next ones try anew', async () => {
    const clock = new HandClock();
    const row = memoryRow(clock, () => 1);
    let isDown = true;
    const shared = {
      read: () => (isDown ? down() : row.read()),
      swap: (version: number, state: string) => (isDown ? down() : row.swap(version, state)),
    };
    const rateLimiter = rateLimiterFor(clock, { shared });
    const both = await Promise.allSettled([1, 2].map(() => rateLimiter.run('backfill', unheard)));
    expect(both).toMatchObject([1, 2].map(() => ({ reason: { code: 'warehouse_unreachable' } })));
    isDown = false;
    expect(await clock.finish(rateLimiter.run('backfill', unheard))).toBe('sent');
  });
});

describe('lanes over all processes', () => {
  it('a live request goes before the backfill of the others', async () => {
    const { clock, seen, join, end } = sharing({ limiter: tokenBucket(20, 20), headers: 'ietf' });
    const [live, ...others] = [join(), join(), join(), join()];
    for (const member of others) member.work('backfill', 8);
    await clock.advance(5_000);
    for (let turn = 0; turn < 40; turn += 1) {
      void live?.once('refetch');
      await clock.advance(130);
    }
    await clock.advance(1_000);
    await end();
    const waits = (live?.waits.get('refetch') ?? []).toSorted((a, b) => a - b);
    expect(waits).toHaveLength(40);
    // A turn takes 50 ms: its own, and every fifth time that of somebody who has waited longer.
    expect(waits[20]).toBeLessThan(80);
    expect(waits.at(-1)).toBeLessThan(300);
    expect(seen.limited).toEqual([]);
  });
});
