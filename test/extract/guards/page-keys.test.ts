import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { eachKey, lastKnown, pushedOn, sameKeys, sharedKeys } from '../../../src/extract/guards/key-set.ts';
import { KEY_FINGERPRINT_BYTES, keyFingerprints } from '../../../src/shape/records/key-fingerprint.ts';

/** Few enough to meet again; some of them as they are read back, anywhere in a larger buffer. */
const pages = fc
  .tuple(fc.array(fc.constantFrom('a', 'b', 'c', 'd', 'e'), { maxLength: 6 }), fc.integer({ min: 0, max: 3 }))
  .map(([keys, offset]) => ({ keys, prints: movedBy(keyFingerprints(keys), offset) }));

function movedBy(prints: Uint8Array, offset: number): Uint8Array {
  const wider = Buffer.concat([new Uint8Array(offset), prints]);
  return new Uint8Array(wider.buffer, wider.byteOffset).subarray(offset, offset + prints.length);
}

describe('keys of pages', () => {
  it('are compared as texts would be', () => {
    fc.assert(
      fc.property(pages, pages, (before, page) => {
        const overlaps = page.keys.map((_, index) => page.keys.slice(0, index + 1));
        const pushed = overlaps.filter((start) => before.keys.slice(-start.length).join() === start.join());
        expect(lastKnown(page.prints, before.prints)).toBe(page.keys.findLastIndex((key) => before.keys.includes(key)));
        expect(sharedKeys(page.prints, before.prints)).toBe(
          page.keys.filter((key) => before.keys.includes(key)).length,
        );
        expect(pushedOn(before.prints, page.prints)).toBe(Math.max(0, ...pushed.map(({ length }) => length)));
        expect(sameKeys(before.prints, page.prints)).toBe(before.keys.join() === page.keys.join());
      }),
      { seed: 11, numRuns: 500 },
    );
  });

  it('are visited in their order', () => {
    const prints = movedBy(keyFingerprints(['a', 'b', 'a']), 1);
    const seen: string[] = [];
    eachKey(prints, (high, low, index) => seen.push([index, high, low].join(' ')));
    const first = seen[0]?.slice(2);
    expect([seen.length, prints.length]).toEqual([3, 3 * KEY_FINGERPRINT_BYTES]);
    expect(seen.map((each) => each.slice(2) === first)).toEqual([true, false, true]);
  });
});
