import { describe, expect, it } from 'vitest';
import { KeptKeys } from '../../../src/extract/guards/key-set.ts';

/** Of `length` bytes that tell the page. */
function keysOf(page: number, length: number): Uint8Array {
  return new Uint8Array(length).fill(page);
}

describe('the keys of the pages of a walk', () => {
  it('stay what they were, whatever becomes of those that were given and however long a page is', () => {
    const kept = new KeptKeys();
    const lengths = [8, 0, 4_096, 80, 3_000_000, 8, 2_097_152];
    const pages = lengths.map((length, page) => {
      const given = keysOf(page, length);
      const copy = kept.keep(given);
      given.fill(99);
      return copy;
    });
    expect(pages.map((copy, page) => Buffer.compare(copy, keysOf(page, lengths[page] ?? 0)))).toEqual(
      lengths.map(() => 0),
    );
  });

  it('lie in few pieces of memory, where each may be read by its halves', () => {
    const kept = new KeptKeys();
    const pages = Array.from({ length: 2_000 }, (_, page) => kept.keep(keysOf(page, 4_000)));
    expect(new Set(pages.map(({ buffer }) => buffer)).size).toBeLessThan(20);
    expect(pages.every(({ byteOffset }) => byteOffset % 4 === 0)).toBe(true);
  });

  it('of a short walk take little', () => {
    expect(new KeptKeys().keep(keysOf(1, 800)).buffer.byteLength).toBe(4_096);
  });
});
