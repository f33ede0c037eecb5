import { describe, expect, it } from 'vitest';
import type { Doubt, WalkEnd } from '../../src/pagination/page.ts';
import { proveWalk } from '../../src/sync/prove-walk.ts';
import { profileWith } from '../support/page-records.ts';

function endWith(codes: readonly Doubt['code'][], fields: Partial<WalkEnd> = {}): WalkEnd {
  const doubts = codes.map((code): Doubt => ({ code, message: `${code} seen`, hint: 'do' }));
  return {
    proof: 'signal',
    records: 1,
    doubts,
    prints: 'a',
    shortfall: null,
    met: () => true,
    settleMs: 0,
    ...fields,
  };
}

function judged(codes: readonly Doubt['code'][], profile: object = {}, former: WalkEnd | null = null) {
  const { isProved, mayRepeat, maySweep, needsCatchUp } = proveWalk(
    endWith(codes),
    profileWith({ incremental: null, ...profile }),
    former,
  );
  return { isProved, mayRepeat, maySweep, needsCatchUp };
}

const FILTER = { incremental: { param: 'since', format: 'iso', lookback: '1s' } };

describe('the end of a walk', () => {
  it.each<[string, readonly Doubt['code'][], object, object]>([
    ['no doubt: proved', [], {}, { isProved: true, mayRepeat: false, maySweep: true }],
    ['no proof of the end: not', ['unproved'], {}, { isProved: false, mayRepeat: false, maySweep: false }],
    ['no proof, accepted', ['unproved'], { accept: ['end'] }, { isProved: true, mayRepeat: false, maySweep: true }],
    ['movement: walked again', ['slipped', 'fewer'], {}, { isProved: false, mayRepeat: true, maySweep: false }],
    ['movement, accepted', ['slipped'], { accept: ['end'] }, { isProved: true, mayRepeat: false, maySweep: false }],
    ['insertions, accepted', ['entered'], { accept: ['end'] }, { isProved: true, mayRepeat: false, maySweep: false }],
    ['pages out of a cache: walked again', ['cached'], {}, { isProved: false, mayRepeat: true, maySweep: false }],
    [
      'pages out of a cache, another proof accepted',
      ['cached'],
      { accept: ['end'] },
      { isProved: false, mayRepeat: true },
    ],
    [
      'pages out of a cache, accepted',
      ['cached'],
      { accept: ['cache'] },
      { isProved: true, mayRepeat: false, maySweep: true },
    ],
    [
      'movement beside an accepted cache',
      ['cached', 'slipped'],
      { accept: ['cache'] },
      { isProved: false, mayRepeat: true },
    ],
    ['fewer than the total, accepted: never', ['fewer'], { accept: ['end'] }, { isProved: false, mayRepeat: true }],
    ['fewer, and records can be fetched alone', ['fewer'], { item: '/a/{id}' }, { isProved: false, maySweep: false }],
    ['movement, accepted: no deletes', ['entered'], { accept: ['end'] }, { isProved: true, maySweep: false }],
    [
      'records came onto pages that were read',
      ['entered', 'fewer'],
      {},
      { isProved: false, mayRepeat: true, needsCatchUp: false },
    ],
    ['records came, and a filter lists them', ['entered'], FILTER, { isProved: true, needsCatchUp: true }],
    ['records came, and fewer than the total', ['entered', 'fewer'], FILTER, { isProved: false, mayRepeat: true }],
    ['records came and slipped', ['entered', 'slipped'], FILTER, { isProved: false, mayRepeat: true }],
    ['page numbers and no total', ['unwatched'], {}, { isProved: false, mayRepeat: true }],
  ])('with %s', (_, codes, profile, expected) => {
    expect(judged(codes, profile)).toMatchObject(expected);
  });

  it('is proved by a second walk that meets the same', () => {
    expect(judged(['unwatched'], {}, endWith(['unwatched'])).isProved).toBe(true);
    const other = endWith(['unwatched'], { prints: 'b' });
    expect(judged(['unwatched'], {}, other)).toMatchObject({ isProved: false, mayRepeat: true });
  });

  it('growth of the total is listed by a feed', () => {
    const end = endWith(['fewer'], { shortfall: { count: 1, isGrowth: true } });
    const fed = profileWith({
      incremental: { mode: 'feed', path: '/changes', query: { since: '{cursor}' }, next: 'at' },
    });
    expect(proveWalk(end, fed, null)).toMatchObject({ isProved: true, needsCatchUp: true, maySweep: false });
    expect(proveWalk(end, profileWith(FILTER), null)).toMatchObject({ isProved: false, mayRepeat: true });
  });
});
