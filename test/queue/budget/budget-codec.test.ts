import { describe, expect, it } from 'vitest';
import { restoreShared, storeShared } from '../../../src/queue/budget/budget-codec.ts';
import { restoreBudget, storeBudget } from '../../../src/queue/budget/restart-codec.ts';
import { rateDialectSchema } from '../../../src/source/rate-dialect.ts';

/** The two stored forms, as versions before this one wrote them: what stands in a warehouse must stay readable. */
const SHARED =
  '{"format":1,"at":1005446.258876292,"quotas":[{"name":"x-ratelimit","limit":20,"windowMs":null,"requests":true,"remaining":1,"spendable":1,"trickle":-0.020000000000000018,"blockedUntil":-1005446.261,"newest":6,"answeredAt":-36.085,"longestResetMs":6000,"learned":4.5,"proven":false,"resetAt":5963.915,"samples":[[-4453,10,9],[-3307,20,18],[-36,7,1]],"lately":[]}],"ceiling":{"peak":1,"phase":"guess","cutAt":-4450.828,"accepted":4,"lately":[-36]},"slots":{"current":2,"starting":false,"past":{"mean":59.3498420715332,"variance":0,"fastest":59.3498420715332,"at":-36.085},"round":{"sum":0,"answers":0,"pushedBack":false,"used":false}},"pausedUntil":-3450.828,"probing":false,"refusals":0,"refusedAt":-4450.828,"started":6,"due":-856.38,"shutAt":563.915,"open":[],"seen":[["a",-36.085],["b",0]],"claims":[["a","backfill",-46.085,-46.085,963.915],["b","refetch",-10,-10,1000]],"turns":6,"liveAt":-912.127}';
const RESTART =
  '{"version":1,"pausedUntil":null,"refusals":0,"due":1700001004590,"peak":1,"quotas":[{"name":"x-ratelimit","limit":20,"windowMs":null,"requests":true,"longestResetMs":6000,"learned":4.5,"proven":false,"blockedUntil":null,"answeredAt":1700001005411}]}';
/** What this version does not store any more. */
const REMOVED = new Set(['trickle', 'learned', 'proven', 'samples', 'phase', 'mean', 'variance']);

/** The text without the removed parts, and with what the ceiling has beside them by now. */
function parsed(text: string): unknown {
  return JSON.parse(text, (key, value: unknown) => {
    if (REMOVED.has(key)) return undefined;
    return key === 'ceiling' ? { base: 1, isSlowStart: false, heldUntil: 0, ...Object(value) } : value;
  });
}

const AT = 1_005_446.258_876_292;
const options = { dialect: rateDialectSchema.parse('auto'), share: 0.5, concurrency: 4, random: () => 0 };

describe('the form that all processes read', () => {
  it('is read as it was written, and written as it was read', () => {
    const state = restoreShared(SHARED, options, AT);
    expect(state).toMatchObject({ grants: 6, budget: { started: 6, probing: false, refusals: 0 } });
    expect(state.claims.get('b')).toEqual({ lane: 'refetch', since: AT - 10, oldest: AT - 10, until: AT + 1_000 });
    expect(state.budget.quotas.get('x-ratelimit')).toMatchObject({ limit: 20, remaining: 1, resetAt: AT + 5_963.915 });
    expect(JSON.parse(storeShared(state, AT))).toEqual(parsed(SHARED));
  });

  it('goes by the clock of its reader where that was set back', () => {
    const state = restoreShared(SHARED, options, AT - 60_000);
    expect(state.seen.get('b')).toBe(AT - 60_000);
  });

  it.each([null, '', 'no json', '{}', SHARED.replace('"format":1', '"format":2')])('of %s nothing is known', (text) => {
    expect(restoreShared(text, options, AT)).toMatchObject({ grants: 0, budget: { started: 0, probing: true } });
  });
});

describe('the form that survives a restart', () => {
  const now = 1_700_001_005_447;

  it('holds waits by the wall clock and what was learned', () => {
    const { budget } = restoreShared(SHARED, options, AT);
    const stored = storeBudget(budget, { now: 1_700_000_000_000 + AT, monotonic: AT });
    // The quota has nothing to spare before its reset.
    const expected = {
      version: 1,
      pausedUntil: 1_700_001_006_011,
      refusals: 0,
      due: 1_700_001_004_590,
      peak: 1,
      quotas: [],
    };
    expect(JSON.parse(stored)).toEqual(expected);
  });

  it('is read by the clock of the new process, on which nothing of the past lies ahead', () => {
    const known = { due: 50 - 857, peak: 1, pausedUntil: 0, refusals: 0 };
    expect(restoreBudget(RESTART, { now, monotonic: 50 })).toEqual(known);
    const blocked = RESTART.replace('"blockedUntil":null', `"blockedUntil":${now + 9_000}`);
    expect(restoreBudget(blocked, { now, monotonic: 50 })).toEqual({ ...known, pausedUntil: 9_050 });
    expect(restoreBudget(RESTART, { now: now - 3_600_000, monotonic: 50 }).due).toBe(50);
  });

  it.each([undefined, '', 'no json', SHARED])('of %s nothing is known', (text) => {
    const nothing = { pausedUntil: 0, refusals: 0, due: null, peak: null };
    expect(restoreBudget(text, { now, monotonic: 50 })).toEqual(nothing);
  });
});
