import type { SourceRecord } from '../../model/json.ts';
import { KEY_FINGERPRINT_BYTES, keyFingerprints } from '../../shape/records/key-fingerprint.ts';
import { recordKey } from '../../shape/records/record-key.ts';

/** Fingerprints of the keys of records, in their order, as `keyFingerprints` makes them; one without a usable key has none. */
export function pageKeys(records: readonly SourceRecord[], id: string | string[]): Buffer {
  const keys: string[] = [];
  for (const { value } of records) {
    const found = recordKey(value, id);
    if ('key' in found) keys.push(found.key);
  }
  return keyFingerprints(keys);
}

/** Calls `visit` with each fingerprint as two halves, in order. */
export function eachKey(keys: Uint8Array, visit: (high: number, low: number, index: number) => void): void {
  const view = new DataView(keys.buffer, keys.byteOffset, keys.byteLength);
  for (let at = 0; at < keys.length; at += KEY_FINGERPRINT_BYTES) {
    visit(view.getUint32(at, true), view.getUint32(at + 4, true), at / KEY_FINGERPRINT_BYTES);
  }
}

/** The index of the last of `keys` that is among `known`; -1 if none is. */
export function lastKnown(keys: Uint8Array, known: Uint8Array): number {
  const before = new Set<string>();
  eachKey(known, (high, low) => before.add(`${high} ${low}`));
  let last = -1;
  eachKey(keys, (high, low, index) => {
    if (before.has(`${high} ${low}`)) last = index;
  });
  return last;
}

/** True if both are the same keys in the same order. */
export function sameKeys(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0;
}

/** With how many of the keys at the end of `before` `keys` begins: so far a page was pushed on by what came before it. */
export function pushedOn(before: Uint8Array, keys: Uint8Array): number {
  const most = Math.min(before.length, keys.length) / KEY_FINGERPRINT_BYTES;
  for (let count = most; count > 0; count--) {
    const bytes = count * KEY_FINGERPRINT_BYTES;
    if (sameKeys(before.subarray(-bytes), keys.subarray(0, bytes))) return count;
  }
  return 0;
}
