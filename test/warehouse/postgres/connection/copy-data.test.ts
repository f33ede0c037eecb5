import { describe, expect, it } from 'vitest';
import { CopyMemory } from '../../../../src/warehouse/postgres/connection/copy-data.ts';

describe('memory of pages', () => {
  it('is used again once it was given back, and no other', () => {
    const memory = new CopyMemory();
    const [one, other] = [memory.take(300_000), memory.take(300_000)];
    expect(other).not.toBe(one);
    memory.giveBack(one);
    expect(memory.take(200_000).length).toBeLessThan(one.length);
    expect(memory.take(one.length)).toBe(one);
    expect(memory.take(one.length)).not.toBe(one);
  });

  it('is handed over whole, and kept no longer', () => {
    const memory = new CopyMemory();
    const taken = [memory.take(300_000), memory.take(5_000)];
    for (const bytes of taken) memory.giveBack(bytes);
    expect(new Set(memory.takeAll())).toEqual(new Set(taken.map(({ buffer }) => buffer)));
    expect(memory.takeAll()).toEqual([]);
    expect(taken).not.toContain(memory.take(300_000));
  });

  it('is left to be collected where there is much of it', () => {
    const memory = new CopyMemory();
    const taken = Array.from({ length: 40 }, () => memory.take(2 ** 20));
    for (const bytes of taken) memory.giveBack(bytes);
    const again = new Set(Array.from({ length: 40 }, () => memory.take(2 ** 20)));
    expect(taken.filter((bytes) => again.has(bytes))).toHaveLength(8);
  });
});
