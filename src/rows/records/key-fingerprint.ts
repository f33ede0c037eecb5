/** Bytes per key. */
export const KEY_FINGERPRINT_BYTES = 8;

const FNV_PRIME = 0x01000193;

/**
 * Keys as eight bytes each, one after the other: two independent 32-bit hashes (FNV-1a with different starts, each
 * mixed at the end as MurmurHash3 does). Among a million keys the chance of a collision is one in thirty million.
 */
export function keyFingerprints(keys: readonly string[]): Buffer {
  const halves = new Int32Array(keys.length * 2);
  let at = 0;
  for (const key of keys) {
    let first = 0x811c9dc5;
    let second = 0x2c1b3c6d;
    for (let index = 0; index < key.length; index += 1) {
      const unit = key.charCodeAt(index);
      first = Math.imul(first ^ unit, FNV_PRIME);
      second = Math.imul(second ^ unit, FNV_PRIME);
    }
    halves[at++] = mixed(first);
    halves[at++] = mixed(second);
  }
  return Buffer.from(halves.buffer);
}

function mixed(hash: number): number {
  let mixed = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return mixed ^ (mixed >>> 16);
}
