/** Bytes per key. */
export const KEY_FINGERPRINT_BYTES = 8;

/**
 * Keys as eight bytes each, one after the other: two independent 32-bit hashes (FNV-1a with different starts, each
 * stirred at the end as MurmurHash3 does). Among a million keys two share one with a chance of one in thirty million.
 */
export function keyFingerprints(keys: readonly string[]): Buffer {
  const bytes = Buffer.allocUnsafe(keys.length * KEY_FINGERPRINT_BYTES);
  keys.forEach((key, at) => {
    bytes.writeInt32LE(hash(key, 0x811c9dc5), at * KEY_FINGERPRINT_BYTES);
    bytes.writeInt32LE(hash(key, 0x2c1b3c6d), at * KEY_FINGERPRINT_BYTES + 4);
  });
  return bytes;
}

function hash(key: string, start: number): number {
  let mixed = start | 0;
  for (let at = 0; at < key.length; at += 1) mixed = Math.imul(mixed ^ key.charCodeAt(at), 0x01000193);
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return mixed ^ (mixed >>> 16);
}
