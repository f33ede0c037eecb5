import { describe, expect, it } from 'vitest';
import { keyFingerprints } from '../../../src/shape/records/key-fingerprint.ts';
import { SeenKeys } from '../../../src/sync/deletes/seen-keys.ts';

describe('SeenKeys', () => {
  it('tells what is missing from what is there, among many alike and over several pages', () => {
    const keys = Array.from({ length: 50_000 }, (_, index) => `post_${index}`);
    const seen = new SeenKeys(keys.length);
    for (let at = 0; at < keys.length; at += 700) seen.add(keyFingerprints(keys.slice(at, at + 700)));
    expect(seen.missingAmong(keys)).toEqual([]);
    const others = Array.from({ length: 50_000 }, (_, index) => `post-${index}`);
    expect(seen.missingAmong(others)).toEqual(others);
    expect(seen.missingAmong(['post_7', 'post_50000', 'post_49999', ''])).toEqual(['post_50000', '']);
  });

  it('takes a fingerprint of zeros and one at an odd place of the memory', () => {
    const seen = new SeenKeys(2);
    const memory = Buffer.concat([Buffer.alloc(3), Buffer.alloc(8), keyFingerprints(['a'])]);
    seen.add(memory.subarray(3));
    expect(seen.missingAmong(['a', 'b'])).toEqual(['b']);
  });
});
