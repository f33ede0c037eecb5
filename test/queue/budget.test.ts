import { describe, expect, it } from 'vitest';
import {
  closedUntil,
  delayOf,
  newBudget,
  NOTHING_KNOWN,
  noteBudgetAnswer,
  noteFailure,
  noteStart,
  type Budget,
} from '../../src/queue/budget.ts';
import { readAnswerLimits } from '../../src/queue/limits/answer-limits.ts';
import { rateDialectSchema } from '../../src/source/rate-dialect.ts';

const dialect = rateDialectSchema.parse('auto');
const START = 1_000_000;

/** Starts a request, or has the oldest one under way end: with an answer of these headers, a refusal, or none. */
type Step = 'start' | 'lost' | { headers?: Record<string, string>; limited?: boolean };

const GOOD: Step = {};
const quota = (remaining: number): Step => ({
  headers: { 'x-ratelimit-limit': '100', 'x-ratelimit-remaining': String(remaining), 'x-ratelimit-reset': '60' },
});

function after(steps: readonly Step[]): { budget: Budget; at: number } {
  const options = { dialect, requestsPerSecond: 10, share: 1, concurrency: 8, random: () => 0 };
  const budget = newBudget(options, NOTHING_KNOWN, START);
  let at = START;
  for (const step of steps) {
    at += 1_000;
    const [oldest = 0] = budget.open.keys();
    if (step === 'start') noteStart(budget, { owner: '', lane: 'backfill' }, at);
    else if (step === 'lost') noteFailure(budget, oldest);
    else {
      const limits = readAnswerLimits({ headers: step.headers ?? {}, receivedAt: at }, dialect);
      noteBudgetAnswer(budget, oldest, at, { limits, latencyMs: 20, limited: step.limited ?? false, at });
    }
  }
  return { budget, at };
}

const ANSWER_ONLY = Number.POSITIVE_INFINITY;
const PROBING = { probing: true, closed: false };
const OPEN = { probing: false, closed: false };
const BLOCKED = { probing: false, closed: true };
const PAUSED = { probing: true, closed: true };

describe('the states of a budget', () => {
  it.each<[string, readonly Step[], number, { probing: boolean; closed: boolean }]>([
    ['probing: the first request starts at once', [], 0, PROBING],
    ['probing: the second waits for its answer', ['start'], ANSWER_ONLY, PROBING],
    ['probing goes on after a request that was lost', ['start', 'lost'], 0, PROBING],
    ['open by a good answer', ['start', GOOD], 0, OPEN],
    ['full while as many are under way as slots allow', ['start', GOOD, 'start'], ANSWER_ONLY, OPEN],
    ['open again by the next answer', ['start', GOOD, 'start', GOOD], 0, OPEN],
    ['blocked by a quota that is used up', ['start', quota(0)], 60_000, BLOCKED],
    ['spent while the reserve of a quota is all that is left', ['start', quota(1), 'start'], ANSWER_ONLY, OPEN],
    ['paused by a refusal', ['start', { limited: true }], 1_000, PAUSED],
    [
      'paused for as long as a refusal states',
      ['start', { limited: true, headers: { 'retry-after': '7' } }],
      7_000,
      PAUSED,
    ],
    ['paused by a wait that a good answer states', ['start', { headers: { 'retry-after': '7' } }], 7_000, PAUSED],
    ['probing after the pause', ['start', { limited: true }, 'start', 'lost'], 0, PROBING],
    ['open by a good answer after the pause', ['start', { limited: true }, 'start', GOOD], 0, OPEN],
  ])('%s', (_name, steps, delay, { probing, closed }) => {
    const { budget, at } = after(steps);
    expect(delayOf(budget, at)).toBe(delay);
    expect({ probing: budget.probing, closed: closedUntil(budget, at) !== null }).toEqual({ probing, closed });
  });
});
