import { beforeEach, describe, expect, it } from 'vitest';
import { type RowCounts, SourceActivity, type WalkEnd } from '../../src/observe/activity.ts';
import { createMetrics } from '../../src/observe/metrics.ts';
import type { Clock } from '../../src/model/clock.ts';

/** A clock that stands still until it is wound; sleeping winds it. */
function handClock(start = Date.UTC(2026, 0, 1)): Clock & { wind(ms: number): void } {
  let now = start;
  return {
    now: () => now,
    monotonic: () => now,
    sleep: async (ms) => {
      now += ms;
    },
    wind: (ms) => {
      now += ms;
    },
  };
}

const NO_ROWS: RowCounts = { inserted: 0, updated: 0, unchanged: 0, rejected: 0, deleted: 0 };
const UPDATE = { records: 10, pages: 1, requests: 1, total: null };
const END: WalkEnd = { mode: 'full', status: 'ok', seconds: 1, counts: NO_ROWS, pages: 0, error: null };

const clock = handClock();
let activity: SourceActivity;
beforeEach(() => {
  activity = new SourceActivity('blog', clock, createMetrics('0'));
});

describe('a walk', () => {
  it('is shown while it runs, and its rows are counted as differences', () => {
    activity.walkStarted('content', 'full', UPDATE);
    activity.walkPage('content', UPDATE, { ...NO_ROWS, inserted: 3, unchanged: 5 }, 1);
    activity.walkPage('content', UPDATE, { ...NO_ROWS, inserted: 4, unchanged: 9 }, 2);
    expect(activity.running('content')).toMatchObject({ mode: 'full', progress: { records: 10 } });
    activity.walkEnded('content', { ...END, counts: { ...NO_ROWS, inserted: 4, unchanged: 9, deleted: 2 }, pages: 2 });
    expect(activity.running('content')).toBeNull();
    expect(activity.changes.full.total(clock.now()).count).toBe(6);
  });

  it('leaves its error until the next one succeeds', () => {
    const error = { code: 'unauthorized', message: 'no', hint: null };
    activity.walkEnded('content', { ...END, status: 'failed', error });
    expect(activity.lastError('content')).toBe(error);
    activity.walkEnded('content', END);
    expect(activity.lastError('content')).toBeNull();
  });
});

it('totals of the receiver are counted as differences', () => {
  activity.receiverTotals({ stored: 5, refused: { too_old: 1 } });
  activity.receiverTotals({ stored: 7, refused: { too_old: 1 } });
  expect(activity.received.total(clock.now()).count).toBe(7);
  expect(activity.refused.total(clock.now()).count).toBe(1);
  expect(activity.lastReceivedAt).toBe(clock.now());
});

it('a delivery counts as a change only if a row changed', () => {
  const delivery = { resource: 'content', deliveries: 2, delayMs: 40 };
  activity.delivered({ ...delivery, result: 'updated' });
  activity.delivered({ ...delivery, result: 'unchanged' });
  activity.delivered({ ...delivery, resource: null, result: null });
  expect(activity.delays.total(clock.now()).count).toBe(6);
  expect(activity.changes.webhook.total(clock.now()).count).toBe(1);
});
