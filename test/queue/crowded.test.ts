import { describe, expect, it } from 'vitest';
import type { Lane } from '../../src/model/vocabulary.ts';
import { newBudget, noteBudgetAnswer, noteStart, type Budget } from '../../src/queue/budget/budget.ts';
import { isCrowded } from '../../src/queue/crowded.ts';
import { readAnswerLimits } from '../../src/queue/limits/answer-limits.ts';
import { rateDialectSchema } from '../../src/source/rate-dialect.ts';

const dialect = rateDialectSchema.parse('auto');
const START = 1_000_000;
/** Behind every pace of these tests. */
const LATER = START + 60_000;

/** A budget whose first request, of which the answer is still to come, is under way since the start. */
function probing(): Budget {
  const options = { dialect, requestsPerSecond: 10, share: 1, concurrency: 1, random: () => 0 };
  const restored = { pausedUntil: 0, refusals: 0, due: null, peak: null };
  const budget = newBudget(options, restored, START);
  noteStart(budget, START);
  return budget;
}

/** One that the service has told to wait for an hour. */
function paused(): Budget {
  const budget = probing();
  const limits = readAnswerLimits({ headers: { 'retry-after': '3600' }, receivedAt: START }, dialect);
  noteBudgetAnswer(budget, noteStart(budget, START), { limits, latencyMs: 20, limited: true, at: START });
  return budget;
}

function crowd(budget: Budget, waiting: readonly Lane[], running: readonly Lane[], now = LATER): boolean {
  const sizeBy = ({ lane }: { lane: Lane }): number => waiting.filter((each) => each === lane).length;
  const counts = new Map(running.map((lane) => [lane, running.filter((each) => each === lane).length]));
  const of = { waiting: { size: waiting.length, sizeBy }, running: counts, hasFreeSlot: false, budget, now };
  return isCrowded(of, 'bulk');
}

describe('a lane that holds what an earlier one waits for', () => {
  it('is told so where only its own requests are under way', () => {
    expect(crowd(probing(), ['backfill'], ['bulk'])).toBe(true);
  });

  it.each<[string, Lane[], Lane[]]>([
    ['nobody waits', [], ['bulk']],
    ['only its own wait', ['bulk'], ['bulk']],
    [
      'a request of an earlier lane is under way too, behind which the next one comes',
      ['backfill'],
      ['bulk', 'refetch'],
    ],
  ])('is not where %s', (_, waiting, running) => {
    expect(crowd(probing(), waiting, running)).toBe(false);
  });

  it("is not while the service's pace or pause is what they wait for", () => {
    expect(crowd(probing(), ['backfill'], ['bulk'], START)).toBe(false);
    expect(crowd(paused(), ['backfill'], ['bulk'])).toBe(false);
  });
});
