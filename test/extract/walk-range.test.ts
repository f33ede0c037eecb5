import { describe, expect, it } from 'vitest';
import { joinRanges, jointOf, type WalkedRange } from '../../src/extract/walk-range.ts';
import { keyFingerprints } from '../../src/shape/records/key-fingerprint.ts';

const keysFrom = (first: number, count = 4): Uint8Array =>
  keyFingerprints(Array.from({ length: count }, (_, index) => String(first + index)));

/** A range that read its first page from `first` on, and its border page from `border` on. */
function range(first: number, border: number, total: number, totalThen = total): WalkedRange {
  const last = [border - 4, border].map((at) => ({ keys: keysFrom(at), total }));
  const read = { keys: keysFrom(first), total: totalThen };
  return { first: read, last, isThrough: true, doubts: [], leastTotal: Math.min(total, totalThen) };
}

describe('two neighbouring ranges', () => {
  it.each([
    ['read the same between them', range(0, 20, 40), range(20, 40, 40), 'fits'],
    ['saw two come before it, as the total says', range(0, 18, 42), range(20, 40, 42, 40), 'fits'],
    ['saw three go before it, as the total says', range(0, 23, 37), range(20, 40, 37, 40), 'fits'],
    ['saw the later one read after two came', range(0, 20, 40), range(18, 40, 42), 'fits'],
    ['saw one move over it', range(0, 19, 40), range(20, 40, 40), 'moved'],
    ['saw another number move than the total says', range(0, 18, 41), range(20, 40, 41, 40), 'moved'],
    ['saw a page and more go', range(0, 29, 31), range(20, 40, 31, 40), 'gap'],
    ['have read nothing', range(0, 20, 40), { ...range(20, 40, 40), first: null }, 'gap'],
  ] as const)('%s', (_, before, after, joint) => {
    expect(jointOf(before, after)).toBe(joint);
  });
});

describe('ranges that were all walked', () => {
  const still = [range(0, 20, 60), range(20, 40, 60), range(40, 60, 60)];

  it('are one walk where they fit together and have met all', () => {
    expect(joinRanges(still, 60)).toEqual({ again: [], doubts: [] });
  });

  it('may have lost a record where they met fewer than any page told', () => {
    expect(joinRanges(still, 59)).toMatchObject({ again: [], doubts: [{ code: 'slipped' }] });
  });

  it('have what moved over a border as a doubt, and are walked again on both sides of a gap', () => {
    const [first, second, third] = [range(0, 20, 60), range(21, 40, 60), range(40, 60, 60)];
    expect(joinRanges([first, second, third], 60)).toMatchObject({ again: [], doubts: [{ code: 'entered' }] });
    const far = range(33, 40, 60);
    expect(joinRanges([first, far, third], 60)).toMatchObject({ again: [0, 1], doubts: [{ code: 'slipped' }] });
  });

  it('are not walked again where the listing ends before its total says so', () => {
    const ended = { ...range(20, 40, 60), isThrough: false };
    expect(joinRanges([range(0, 20, 60), ended, range(40, 60, 60)], 60)).toMatchObject({
      again: [],
      doubts: [{ code: 'slipped' }],
    });
  });
});
