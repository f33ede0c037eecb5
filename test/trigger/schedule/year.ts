import { expect } from 'vitest';
import { HandClock } from '../../support/hand-clock.ts';
import { dailyTimes, everyMinutes } from './oracle.ts';
import { play, walkedAt, type PlayedRun } from './play.ts';

export const ZONES = ['UTC', 'Europe/Vienna', 'America/New_York', 'Australia/Lord_Howe'] as const;
export const YEAR = [Date.parse('2026-01-01T00:00Z'), Date.parse('2027-01-01T00:00Z')] as const;

const TIMES = { incremental: '* * * * *', full: '30 2 * * *' };
const HALF_PAST_TWO = 150;

/**
 * Winds the clock through [from, to) with an every-minute and a daily schedule in the zone, and holds what was run to
 * the platform's calendar: each minute one walk, the full one at half past two of each day.
 */
export async function windThrough(zone: string, from: number, to: number): Promise<number> {
  const clock = new HandClock(from);
  const { runs, scheduler } = play({
    clock,
    schedule: { ...TIMES, timezone: zone, jitter: 0 },
    resources: { content: walkedAt(from - 1) },
  });
  scheduler.start();
  await clock.advance(to - from - 1);
  await scheduler.stop();
  expectSame(runs, everyMinutes(zone, 1, from, to));
  const full = runs.filter(({ command }) => command === 'backfill');
  expectSame(full, dailyTimes(zone, HALF_PAST_TWO, from, to));
  return runs.length;
}

/** Names the first few that differ: half a million moments are no message. */
function expectSame(runs: readonly PlayedRun[], expected: readonly number[]): void {
  const actual = runs.map(({ beganAt }) => beganAt);
  const [had, wanted] = [new Set(actual), new Set(expected)];
  const missed = expected.filter((at) => !had.has(at)).slice(0, 5);
  const extra = actual.filter((at) => !wanted.has(at)).slice(0, 5);
  expect({ missed: missed.map(textOf), extra: extra.map(textOf) }).toEqual({ missed: [], extra: [] });
  expect(actual).toHaveLength(expected.length);
}

function textOf(at: number): string {
  return new Date(at).toISOString();
}
