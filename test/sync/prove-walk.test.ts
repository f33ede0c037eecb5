import { describe, expect, it } from 'vitest';
import type { Doubt, WalkEnd } from '../../src/extract/guards/walk-end.ts';
import { endWarnings, proveWalk, type Repetition } from '../../src/sync/prove-walk.ts';
import { profileWith } from '../support/page-records.ts';

const FIRST: Repetition = { former: null, behind: null };
const KEY = Buffer.from('12345678');

function endWith(codes: readonly Doubt['code'][], fields: Partial<WalkEnd> = {}): WalkEnd {
  const doubts = codes.map((code): Doubt => ({ code, message: `${code} seen`, hint: 'do' }));
  return {
    proof: 'signal',
    records: 1,
    doubts,
    prints: 'a',
    sure: null,
    met: () => true,
    pageSize: null,
    settleMs: 0,
    ...fields,
  };
}

function judged(codes: readonly Doubt['code'][], profile: object = {}, repetition = FIRST) {
  const { isProved, mayRepeat, maySweep, needsCatchUp } = proveWalk(
    endWith(codes),
    profileWith({ incremental: null, ...profile }),
    repetition,
  );
  return { isProved, mayRepeat, maySweep, needsCatchUp };
}

const FILTER = { incremental: { param: 'since', format: 'iso', overlap: '1s' } };

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
    ['fewer than the total, accepted: never', ['fewer'], { accept: ['end'] }, { isProved: false, mayRepeat: false }],
    ['fewer than the total', ['fewer'], { item: '/a/{id}' }, { isProved: false, maySweep: false }],
    [
      'records came onto pages that were read',
      ['entered', 'fewer'],
      {},
      { isProved: false, mayRepeat: true, needsCatchUp: false },
    ],
    ['records came, and a filter lists them', ['entered', 'fewer'], FILTER, { isProved: true, maySweep: false }],
    ['records came and slipped', ['entered', 'slipped'], FILTER, { isProved: false, mayRepeat: true }],
    ['page numbers and no total', ['unwatched'], {}, { isProved: false, mayRepeat: true }],
  ])('with %s', (_, codes, profile, expected) => {
    expect(judged(codes, profile)).toMatchObject(expected);
  });

  it('is proved by a second walk that meets the same', () => {
    expect(judged(['unwatched'], {}, { former: endWith(['unwatched']), behind: null }).isProved).toBe(true);
    const other = { former: endWith(['unwatched'], { prints: 'b' }), behind: null };
    expect(judged(['unwatched'], {}, other)).toMatchObject({ isProved: false, mayRepeat: true });
  });

  it('behind a sure record is proved only if that record was met again', () => {
    const behind = { key: KEY, updated: '2026-01-01T00:00:00Z' };
    const end = endWith([], { met: (key) => key !== KEY });
    expect(proveWalk(end, profileWith(FILTER), { former: null, behind })).toMatchObject({
      isProved: false,
      mayRepeat: true,
    });
    expect(proveWalk(endWith([]), profileWith(FILTER), { former: null, behind }).isProved).toBe(true);
  });

  it('is reported once for each kind of doubt, with what came for a page', () => {
    const end = endWith(['unproved', 'slipped', 'entered'], { pageSize: { asked: 100, came: 25 } });
    const warnings = endWarnings(proveWalk(end, profileWith({ incremental: null }), FIRST), end);
    expect(warnings.map(({ code }) => code)).toEqual(['end_unproved', 'listing_moved', 'page_size_differs']);
  });
});
