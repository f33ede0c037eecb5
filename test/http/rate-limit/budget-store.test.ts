import { describe, expect, it } from 'vitest';
import { readShared, restoreBudget, sharedText, storeBudget } from '../../../src/http/rate-limit/budget-store.ts';
import {
  newBudget,
  NOTHING_KNOWN,
  noteBudgetAnswer,
  noteStart,
  type Budget,
} from '../../../src/http/rate-limit/budget.ts';
import { readAnswerLimits } from '../../../src/http/rate-limit/answer-limits.ts';
import { rateDialectSchema } from '../../../src/config/profile/rate-dialect.ts';

/** The two stored forms, as versions before this one wrote them: what stands in a warehouse must stay readable. */
const SHARED =
  '{"format":1,"at":1005446.258876292,"quotas":[],"ceiling":{"peak":1,"cutAt":-4450.828,"accepted":4,"lately":[-36]},"pausedUntil":3450,"probing":false,"refusals":0,"started":6,"open":[],"seen":[["a",-36.085]],"claims":[],"turns":6}';
const RESTART =
  '{"version":1,"pausedUntil":null,"refusals":0,"due":1700001004590,"peak":1,"quotas":[{"name":"x-ratelimit","limit":20,"windowMs":null,"requests":true,"longestResetMs":6000,"learned":4.5,"proven":false,"blockedUntil":null,"answeredAt":1700001005411}]}';

const AT = 1_700_000_000_000.5;
const dialect = rateDialectSchema.parse('auto');
const options = { dialect, share: 0.5, concurrency: 4, random: () => 0 };

/** One with a request under way, a quota and a wait of 9 s. */
function used(): Budget {
  const budget = newBudget(options, NOTHING_KNOWN, AT);
  const headers = { 'x-ratelimit-limit': '20', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '9' };
  const limits = readAnswerLimits({ headers, receivedAt: AT }, dialect);
  noteBudgetAnswer(budget, noteStart(budget, { owner: 'a', lane: 'refetch' }, AT), AT, {
    limits,
    latencyMs: 20,
    limited: false,
    at: AT,
  });
  noteStart(budget, { owner: 'b', lane: 'backfill' }, AT);
  budget.seen.set('a', AT);
  return budget;
}

describe('the form that all processes read', () => {
  it('is read as it was written', () => {
    expect(readShared(sharedText(used(), AT), options, AT)).toEqual(used());
  });

  it('goes by the clock of its reader where that was set back', () => {
    const budget = used();
    budget.pausedUntil = AT + 9_000;
    const back = readShared(sharedText(budget, AT), options, AT - 3_600_000);
    expect(back).toEqual(newBudget(options, { ...NOTHING_KNOWN, pausedUntil: AT - 3_600_000 + 9_000 }, AT - 3_600_000));
  });

  it('of the version before tells its stated wait', () => {
    expect(readShared(SHARED, options, AT)).toMatchObject({ started: 0, pausedUntil: AT + 3_450 });
  });

  it.each([null, '', 'no json', '{}', '{"format":9}'])('of %s nothing is known', (text) => {
    expect(readShared(text, options, AT)).toEqual(newBudget(options, NOTHING_KNOWN, AT));
  });
});

describe('the form that survives a restart', () => {
  const now = 1_700_001_005_447;

  it('holds waits by the wall clock and what was learned', () => {
    const budget = used();
    budget.estimate.rate = 1;
    const stored = JSON.parse(storeBudget(budget, { now: 2_000_000_000_000, monotonic: AT }));
    expect(stored).toMatchObject({ version: 1, pausedUntil: 2_000_000_009_000, refusals: 0, peak: 1 });
    expect(restoreBudget(JSON.stringify(stored), { now: 2_000_000_001_000, monotonic: 0 }).pausedUntil).toBe(8_000);
  });

  it('is read by the clock of the new process, on which nothing of the past lies ahead', () => {
    const known = { due: 50 - 857, peak: 1, pausedUntil: 0, refusals: 0 };
    expect(restoreBudget(RESTART, { now, monotonic: 50 })).toEqual(known);
    const blocked = RESTART.replace('"blockedUntil":null', `"blockedUntil":${now + 9_000}`);
    expect(restoreBudget(blocked, { now, monotonic: 50 })).toEqual({ ...known, pausedUntil: 9_050 });
    expect(restoreBudget(RESTART, { now: now - 3_600_000, monotonic: 50 }).due).toBe(50);
  });

  it.each([undefined, '', 'no json', SHARED])('of %s nothing is known', (text) => {
    expect(restoreBudget(text, { now, monotonic: 50 })).toEqual(NOTHING_KNOWN);
  });
});
