import type { RateDialect } from '../../../src/config/profile/rate-dialect.ts';
import { describe, expect, it } from 'vitest';
import type { Attempted } from '../../../src/http/rate-limit/rate-limiter.ts';
import { HandClock } from '../../support/hand-clock.ts';
import { factsOf, rateLimiterFor, seeded } from './limited-service.ts';

/** A service that refuses more than `knee` requests at once. */
interface Knee {
  knee: (at: number) => number;
  baseMs: (at: number) => number;
}

/** Mean number of requests under way in each of the given spans. */
async function underWay(service: Knee, spans: [number, number][], concurrency = 16): Promise<number[]> {
  const clock = new HandClock();
  const rateLimiter = rateLimiterFor(clock, { concurrency });
  const random = seeded(11);
  const areas = spans.map(() => 0);
  let open = 0;
  let since = 0;
  const count = (step: number) => {
    const at = clock.monotonic();
    spans.forEach(([from, to], span) => {
      areas[span] = (areas[span] ?? 0) + open * Math.max(0, Math.min(at, to) - Math.max(since, from));
    });
    since = at;
    open += step;
  };
  const attempt = async (dialect: RateDialect): Promise<Attempted<null>> => {
    const from = clock.monotonic();
    count(1);
    const over = open / service.knee(from);
    const refused = over > 1;
    await clock.sleep(service.baseMs(from) * (0.9 + 0.2 * random()));
    count(-1);
    const answer = { headers: {}, receivedAt: clock.now(), limited: refused };
    return { result: null, facts: factsOf(dialect, answer) };
  };
  const end = new AbortController();
  const worker = async () => {
    while (!end.signal.aborted) await rateLimiter.run('backfill', attempt, end.signal).catch(() => null);
  };
  const workers = Promise.all(Array.from({ length: 2 * concurrency }, worker));
  await clock.advance(Math.max(...spans.map(([, to]) => to)));
  end.abort();
  await clock.finish(workers);
  return spans.map(([from, to], span) => (areas[span] ?? 0) / (to - from));
}

const MOVING = (at: number) => (at < 60_000 ? 5 : at < 120_000 ? 2 : 10);
const SPANS: [number, number][] = [
  [30_000, 60_000],
  [90_000, 120_000],
  [150_000, 180_000],
];

describe('F031 a knee that moves from 5 to 2 to 10 requests at once', () => {
  it('uses between half of it and all of it if the service rejects requests beyond it', async () => {
    const means = await underWay({ knee: MOVING, baseMs: () => 100 }, SPANS);
    [5, 2, 10].forEach((knee, span) => {
      expect((means[span] ?? 0) / knee).toBeGreaterThan(0.5);
      expect((means[span] ?? 0) / knee).toBeLessThanOrEqual(1);
    });
  });
});
