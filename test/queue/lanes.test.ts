import { describe, expect, it } from 'vitest';
import { LANES, type Lane } from '../../src/model/vocabulary.ts';
import { mayStart, yields, yieldingSlots } from '../../src/queue/lanes.ts';

const waiting = (...lanes: Lane[]) => ({
  size: lanes.length,
  sizeBy: ({ lane }: { lane: Lane }) => lanes.filter((other) => other === lane).length,
});

describe('slots of yielding lanes', () => {
  it.each<[string, Lane[], number, boolean]>([
    ['nobody waits', [], 0, false],
    ['a backfill below its slots', ['backfill'], 3, true],
    ['a backfill that has them all', ['backfill'], 4, false],
    ['a live request beside it', ['backfill', 'refetch'], 4, true],
  ])('%s', (_name, lanes, yielding, may) => {
    expect(mayStart(waiting(...lanes), yielding, 4)).toBe(may);
  });

  it('are a fifth fewer while live lanes are in use, of few slots none', () => {
    expect([1, 4, 5, 10].map(yieldingSlots)).toEqual([1, 4, 4, 8]);
    expect(LANES.filter(yields)).toEqual(['backfill', 'bulk']);
  });
});
