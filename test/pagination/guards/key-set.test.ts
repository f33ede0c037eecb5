import { describe, expect, it } from 'vitest';
import { KeySet } from '../../../src/pagination/guards/key-set.ts';

describe('a set of fingerprints', () => {
  it.each([1_000, 50_000, 100_000, 300_000])('keeps %d, in at most 16 bytes each once they are many', (count) => {
    const [set, told] = [new KeySet(), new KeySet(count)];
    // Counted, since an assertion for each would cost a hundred times what the set does.
    const wrong = { added: 0, missed: 0 };
    for (let at = 0; at < count; at++) {
      const high = Math.imul(at, 0x9e3779b1);
      if (!set.add(high, at) || !told.add(high, at) || set.add(high, at)) wrong.added += 1;
    }
    expect([set.size, told.size, set.bytes() / set.size <= (count > 1_000 ? 16.1 : 24)]).toEqual([count, count, true]);
    for (let at = 0; at < count; at += 7) if (!set.has(Math.imul(at, 0x9e3779b1), at)) wrong.missed += 1;
    expect([wrong, set.has(5, count + 1)]).toEqual([{ added: 0, missed: 0 }, false]);
  });
});
