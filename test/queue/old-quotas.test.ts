import { describe, expect, it } from 'vitest';
import { DeferredError } from '../../src/model/errors.ts';
import type { Attempt, Attempted, Governor } from '../../src/queue/governor.ts';
import type { RateDialect } from '../../src/source/rate-dialect.ts';
import { HandClock } from '../support/hand-clock.ts';
import { factsOf, governorFor } from './limited-service.ts';

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
    const answer = { status: 200, headers, receivedAt: clock.now(), latencyMs: 5, limited: false };
    return { result: null, facts: factsOf(dialect, answer) };
  };
  return { sent, attempt };
}

/** True where a request was sent, false where it was put off. */
async function wasSent(clock: HandClock, governor: Governor, attempt: Attempt<null>) {
  try {
    await clock.finish(governor.run('backfill', attempt));
    return true;
  } catch (error) {
    if (error instanceof DeferredError) return false;
    throw error;
  }
}

describe('a quota of which no answer speaks any more', () => {
  it('is forgotten once its window has passed', async () => {
    const clock = new HandClock();
    const governor = governorFor(clock);
    const { sent, attempt } = forgetful(clock, 1);
    await wasSent(clock, governor, attempt);
    expect(governor.figures().allowedPerSecond).toBeCloseTo(3 / 3_600, 6);
    await clock.advance(HOUR + MINUTE);
    const began = clock.now();
    for (let request = 0; request < 20; request += 1) await wasSent(clock, governor, attempt);
    expect(sent).toHaveLength(21);
    expect(clock.now() - began).toBeLessThan(MINUTE);
    expect(governor.figures().allowedPerSecond).toBeNull();
  });

  it('holds until then', async () => {
    const clock = new HandClock();
    const governor = governorFor(clock, { maxWaitMs: 2 * HOUR });
    const { sent, attempt } = forgetful(clock, 1);
    for (let request = 0; request < 3; request += 1) await wasSent(clock, governor, attempt);
    expect(clock.now() - (sent[0] ?? 0)).toBeGreaterThan(15 * MINUTE);
  });
});
