import { describe, expect, it } from 'vitest';
import type { Lane } from '../../../src/model/vocabulary.ts';
import { restoreShared } from '../../../src/queue/budget/budget-codec.ts';
import { grantRound, type Claimant, type SharedState } from '../../../src/queue/budget/grant-round.ts';
import { readAnswerLimits } from '../../../src/queue/limits/answer-limits.ts';
import { rateDialectSchema } from '../../../src/source/rate-dialect.ts';

const dialect = rateDialectSchema.parse('auto');
const START = 1_000_000;

/** A state that one good answer has opened. */
function opened(): SharedState {
  const state = restoreShared(null, { dialect, share: 1, concurrency: 4, random: () => 0 }, START);
  const [request = 0] = grantRound(state, claimant('first', ['backfill']), START).granted;
  const answer = { limits: readAnswerLimits({ headers: {}, receivedAt: 0 }, dialect), latencyMs: 5, limited: false };
  const ended = [{ request, startedAt: START, answer: { ...answer, at: START } }];
  grantRound(state, { ...claimant('first', []), ended }, START);
  return state;
}

function claimant(owner: string, lanes: Lane[], over: Partial<Claimant> = {}): Claimant {
  const waiting = lanes.map((lane, place) => ({ lane, at: START - 100 + place }));
  return { owner, waiting, free: 4, running: new Set(), ended: [], isOverdue: false, ...over };
}

describe('a grant round', () => {
  it('grants what the budget allows, and has the next one wait for an answer', () => {
    const state = opened();
    const round = grantRound(state, claimant('a', ['backfill', 'backfill']), START);
    expect(round).toMatchObject({ granted: [2], delay: Number.POSITIVE_INFINITY });
    expect(state.holders.get(2)).toEqual({ owner: 'a', yields: true });
  });

  it('lets a process go first whose request waits in an earlier lane', () => {
    const state = opened();
    state.claims.set('b', { lane: 'refetch', since: START, oldest: START, until: START + 1_000 });
    expect(grantRound(state, claimant('a', ['backfill']), START)).toMatchObject({ granted: [], delay: 0, ahead: 1 });
    expect(grantRound(state, claimant('b', ['refetch']), START)).toMatchObject({ granted: [2] });
  });

  it('passes over a process that lets its grant pass', () => {
    const state = opened();
    state.claims.set('b', { lane: 'refetch', since: START, oldest: START, until: START + 1_000 });
    const overdue = claimant('a', ['backfill'], { isOverdue: true });
    expect(grantRound(state, overdue, START)).toMatchObject({ granted: [2] });
    expect(state.claims.has('b')).toBe(false);
  });

  it('forgets the requests and the claim of a process that is gone', () => {
    const state = opened();
    grantRound(state, claimant('gone', ['backfill']), START);
    expect(state.holders.size).toBe(1);
    const round = grantRound(state, claimant('a', ['backfill']), START + 5_001);
    expect(round.granted).toHaveLength(1);
    expect([...state.holders.values()]).toEqual([{ owner: 'a', yields: true }]);
  });

  it('grants nothing to a process without a free slot', () => {
    const state = opened();
    expect(grantRound(state, claimant('a', ['backfill'], { free: 0 }), START).granted).toEqual([]);
    expect(state.claims.has('a')).toBe(false);
  });
});
