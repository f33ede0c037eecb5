import { describe, expect, it } from 'vitest';
import type { FaultScript } from '../sandbox/service/faults/fault-script.ts';
import { endsOf, expectWholeCopy, onStage, type StageOptions } from './stage.ts';

type Headers = Record<string, string>;

/** One answer in the middle of a walk that says when to come back. */
interface WaitRow {
  title: string;
  /** Headers of a 429; they may depend on the service's clock, in epoch milliseconds. */
  headers: Headers | ((now: number) => Headers);
  /** What the answer to page 2 is instead of a 429. */
  fault?: FaultScript;
  /** Milliseconds of the shared clock until the next request: at least, and at most. */
  least: number;
  most?: number;
  skew?: number;
}

/** A wait that was understood ends before this many milliseconds, whatever the machine is busy with. */
const SOON = 240_000;

const seconds = (now: number): string => String(Math.floor(now / 1_000));

/** One answer of each kind; how each form of a header is read, the tests of the limiter try. */
const ROWS: readonly WaitRow[] = [
  { title: 'F019 Retry-After in seconds', headers: { 'retry-after': '7' }, least: 7_000 },
  {
    title: 'F020 an IMF date',
    headers: (now) => ({ 'retry-after': new Date(now + 9_000).toUTCString() }),
    least: 8_000,
  },
  { title: 'F021 zero is no hot loop', headers: { 'retry-after': '0' }, least: 1_000 },
  {
    title: 'F023 a reset in Unix seconds',
    headers: (now) => ({
      'x-rate-limit-limit': '9',
      'x-rate-limit-remaining': '0',
      'x-rate-limit-reset': seconds(now + 9_000),
    }),
    least: 8_000,
  },
  {
    title: 'F023 nothing left and no reset at all: the wait that is stated holds, and then it goes on',
    headers: { 'x-ratelimit-limit': '60', 'x-ratelimit-remaining': '0', 'retry-after': '7' },
    least: 7_000,
  },
  {
    title: 'F024 the strictest of several policies, unknown parameters and all',
    headers: { ratelimit: '"burst";r=10;t=1;new=?1, "daily";r=0;t=9;pk=:cGs=:' },
    least: 9_000,
  },
  {
    title: 'F024 the same on an answer that is a success',
    fault: { fault: 'header', headers: { ratelimit: '"burst";r=10;t=1;new=?1, "daily";r=0;t=9' } },
    headers: {},
    least: 9_000,
  },
  {
    title: 'F025 Retry-After wins over a longer RateLimit',
    headers: { 'retry-after': '3', ratelimit: '"default";r=0;t=600' },
    least: 3_000,
  },
  {
    title: 'F027 a reset in Unix seconds of a clock one hour ahead',
    skew: 3_600_000,
    headers: (now) => ({
      'x-ratelimit-limit': '9',
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': seconds(now + 9_000),
    }),
    least: 8_000,
  },
  {
    title: 'F043 limits on an answer out of a cache are ignored',
    fault: { fault: 'header', headers: { age: '30', ratelimit: '"default";r=0;t=600' } },
    headers: {},
    least: 0,
  },
  {
    title: 'F043 limits on a redirect hold before it is followed',
    fault: { fault: 'redirect', hops: 1, headers: { ratelimit: '"default";r=0;t=9' } },
    headers: {},
    least: 9_000,
  },
  {
    title: 'F028 a 403 that says rate limit waits',
    fault: {
      fault: 'status',
      status: 403,
      body: '{"title":"API rate limit exceeded"}',
      'retry-after': '5',
    },
    headers: {},
    least: 5_000,
  },
  {
    title: 'F029 a 503 with Retry-After waits',
    fault: { fault: 'status', status: 503, 'retry-after': '6' },
    headers: {},
    least: 6_000,
  },
];

describe('the service says when to come back', () => {
  it.concurrent.each(ROWS)('$title', async (row) => {
    const options: StageOptions = {
      sandbox: { clockSkew: row.skew ?? 0 },
    };
    await onStage(options, async (stage) => {
      const headers =
        typeof row.headers === 'function' ? row.headers(stage.clock.now() + (row.skew ?? 0)) : row.headers;
      const limited: FaultScript = { fault: 'status', status: 429, headers };
      stage.sandbox.faults.add({ page: 2, nth: 1, ...(row.fault ?? limited) });
      const from = stage.clock.monotonic();
      const ended = await stage.backfill('content');
      expect(endsOf(ended)).toEqual({ content: 'ok' });
      const asked = stage.sandbox.requests.entries();
      const gap = (asked[2]?.at ?? 0) - (asked[1]?.at ?? 0);
      // The headers may name a moment that was reckoned from when the test began.
      const began = typeof row.headers === 'function' ? (asked[1]?.at ?? 0) - from : 0;
      expect(gap).toBeGreaterThanOrEqual(row.least - began);
      expect(gap).toBeLessThan(row.most ?? SOON);
      expect((await stage.sync()).code).toBe(0);
      await expectWholeCopy(stage);
    });
  });
});
