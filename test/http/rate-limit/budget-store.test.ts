import { describe, expect, it } from 'vitest';
import { readShared, restoreBudget, sharedText, storeBudget } from '../../../src/http/rate-limit/budget-store.ts';
import { newBudget, noteStart, recordEnd, type Budget } from '../../../src/http/rate-limit/budget.ts';
import { readAnswerLimits } from '../../../src/http/rate-limit/answer-limits.ts';
import { rateDialectSchema } from '../../../src/config/profile/rate-dialect.ts';

const UNREADABLE = [null, '', 'no json', '{}', '{"format":9}', '{"version":1,"pausedUntil":"soon"}'];
const AT = 1_700_000_000_000.5;
const dialect = rateDialectSchema.parse('auto');
const options = { dialect, share: 0.5, concurrency: 4, random: () => 0 };

/** One with a request under way, a quota and a wait of 9 s. */
function used(): Budget {
  const budget = newBudget(options, AT);
  const headers = { 'x-ratelimit-limit': '20', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '9' };
  const limits = readAnswerLimits({ headers, receivedAt: AT }, dialect);
  const request = noteStart(budget, 'a', 'refetch', AT);
  recordEnd(budget, 'a', { request, startedAt: AT, endedAt: AT, answer: { limits, limited: false, at: AT } });
  noteStart(budget, 'b', 'backfill', AT);
  budget.seen.set('a', AT);
  return budget;
}

describe('the budget in the shared row', () => {
  it('is read as it was written', () => {
    expect(readShared(sharedText(used(), AT), options, AT)).toEqual(used());
  });

  it('keeps only its wait if the clock of the reader was set back', () => {
    const budget = used();
    budget.pausedUntil = AT + 9_000;
    const back = readShared(sharedText(budget, AT), options, AT - 3_600_000);
    expect(back).toEqual({ ...newBudget(options, AT - 3_600_000), pausedUntil: AT - 3_600_000 + 9_000 });
  });

  it.each(UNREADABLE)('is new if the text is %s', (text) => {
    expect(readShared(text, options, AT)).toEqual(newBudget(options, AT));
  });
});

describe('the budget that survives a restart', () => {
  it('holds waits and what was learned; a past time is never in the future', () => {
    const budget = used();
    budget.estimate.rate = 1;
    const stored = storeBudget(budget, AT, AT);
    const restored = (at: number): Budget => restoreBudget(newBudget(options, at), stored, at);
    expect(restored(AT + 1_000)).toMatchObject({
      pausedUntil: Math.ceil(AT + 9_000),
      refusals: 0,
      estimate: { rate: 1 },
    });
    expect(restored(AT - 3_600_000).due).toBeLessThan(AT - 3_600_000);
  });

  it.each([undefined, ...UNREADABLE])('is new if the text is %s', (text) => {
    expect(restoreBudget(newBudget(options, AT), text ?? undefined, AT)).toEqual(newBudget(options, AT));
  });
});
