import { describe, expect, it } from 'vitest';
import { KeySet } from '../../../src/extract/guards/key-set.ts';

describe('a set of fingerprints', () => {
  it('knows what was added, whatever its halves are, and counts it once', () => {
    const set = new KeySet();
    const halves = [0, 1, -1, 0x7fffffff, 0xffffffff].flatMap((high) =>
      [0, 1, 7, -9].map((low) => [high, low] as const),
    );
    const added = halves.map(([high, low]) => set.add(high, low));
    // A zero stands for an empty slot, so 0 and 1 are one; so are -1 and 0xffffffff, which are the same 32 bits.
    expect(added.filter(Boolean)).toHaveLength(12);
    expect([set.size, halves.every(([high, low]) => set.has(high, low)), set.has(5, 5)]).toEqual([12, true, false]);
  });

  it('keeps 100,000 in less than 24 bytes each', () => {
    const set = new KeySet();
    for (let at = 0; at < 100_000; at++) set.add(Math.imul(at, 0x9e3779b1), at);
    expect([set.size, set.bytes() / set.size < 24]).toEqual([100_000, true]);
  });
});
