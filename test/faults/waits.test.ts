import { describe, expect, it } from 'vitest';
import type { FaultScript } from '../sandbox/service/faults/fault-script.ts';
import { endsOf, expectWholeCopy, onStage } from './stage.ts';

type Headers = Record<string, string>;

/** One answer in the middle of a walk that says when to come back. */
interface WaitRow {
  title: string;
  /** Headers of a 429; they may depend on the service's clock, in epoch milliseconds. */
  headers: Headers | ((now: number) => Headers);
  /** What the answer to page 2 is instead of a 429. */
  fault?: FaultScript;
  /** Milliseconds of the shared clock until the next request: at least. */
  least: number;
}

/** A wait that was understood ends before this many milliseconds, whatever the machine is busy with. */
const SOON = 240_000;

/** One answer of each kind; how each form of a header is read, the tests of the limiter try. */
const ROWS: readonly WaitRow[] = [
  { title: 'F019 Retry-After in seconds', headers: { 'retry-after': '7' }, least: 7_000 },
  {
    title: 'F020 an IMF date',
    headers: (now) => ({ 'retry-after': new Date(now + 9_000).toUTCString() }),
    least: 8_000,
  },
  {
    title: 'F025 Retry-After wins over a longer RateLimit',
    headers: { 'retry-after': '3', ratelimit: '"default";r=0;t=600' },
    least: 3_000,
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
    await onStage({}, async (stage) => {
      const headers = typeof row.headers === 'function' ? row.headers(stage.clock.now()) : row.headers;
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
      expect(gap).toBeLessThan(SOON);
      expect((await stage.sync()).code).toBe(0);
      await expectWholeCopy(stage);
    });
  });
});
