import type { SourceRecord } from '../../model/json.ts';
import { KeySet } from './key-set.ts';
import { KEY_FINGERPRINT_BYTES, keyFingerprints } from '../../shape/records/key-fingerprint.ts';
import { keyOfRecord } from '../../shape/records/record-key.ts';

const HALF_BYTES = KEY_FINGERPRINT_BYTES / 2;

/** Fingerprints of the keys of records, in their order, as `keyFingerprints` makes them; one without a usable key has none. */
export function pageKeys(records: readonly SourceRecord[], id: string | string[]): Buffer {
  const keys: string[] = [];
  for (const record of records) {
    const found = keyOfRecord(record, id);
    if ('key' in found) keys.push(found.key);
  }
  return keyFingerprints(keys);
}

/** The halves of each fingerprint, one after the other. */
function halvesOf(keys: Uint8Array): Uint32Array {
  const aligned = keys.byteOffset % HALF_BYTES === 0 ? keys : new Uint8Array(keys);
  return new Uint32Array(aligned.buffer, aligned.byteOffset, aligned.byteLength / HALF_BYTES);
}

/** Calls `visit` with each fingerprint as two halves, in order. */
export function eachKey(keys: Uint8Array, visit: (high: number, low: number, index: number) => void): void {
  const halves = halvesOf(keys);
  for (let at = 0; at < halves.length; at += 2) visit(halves[at] ?? 0, halves[at + 1] ?? 0, at / 2);
}

/** True if the set holds this one fingerprint. */
export function hasKey(set: KeySet, key: Uint8Array): boolean {
  let isThere = false;
  eachKey(key, (high, low) => (isThere = set.has(high, low)));
  return isThere;
}

/** The set of the page that was asked for last: each is looked at several times, one after the other. */
let latest: { keys: Uint8Array; set: KeySet } | null = null;

function setOf(keys: Uint8Array): KeySet {
  if (latest?.keys === keys) return latest.set;
  const set = new KeySet(keys.length / KEY_FINGERPRINT_BYTES);
  eachKey(keys, (high, low) => set.add(high, low));
  latest = { keys, set };
  return set;
}

/** The index of the last of `keys` that is among `known`, neither of which is changed later; -1 if none is. */
export function lastKnown(keys: Uint8Array, known: Uint8Array): number {
  if (keys.length === 0 || known.length === 0) return -1;
  const before = setOf(known);
  const halves = halvesOf(keys);
  for (let at = halves.length - 2; at >= 0; at -= 2) {
    if (before.has(halves[at] ?? 0, halves[at + 1] ?? 0)) return at / 2;
  }
  return -1;
}

/** How many of `keys` are among `known`, neither of which is changed later. */
export function sharedKeys(keys: Uint8Array, known: Uint8Array): number {
  const before = setOf(known);
  let count = 0;
  eachKey(keys, (high, low) => (count += before.has(high, low) ? 1 : 0));
  return count;
}

/** True if both are the same keys in the same order. */
export function sameKeys(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0;
}

/** With how many of the keys at the end of `before` `keys` begins: so far a page was pushed on by what came before it. */
export function pushedOn(before: Uint8Array, keys: Uint8Array): number {
  const [old, all] = [halvesOf(before), halvesOf(keys)];
  const [high, low] = all;
  for (let at = Math.max(0, old.length - all.length); at < old.length; at += 2) {
    if (old[at] === high && old[at + 1] === low && isStart(old, at, all)) return (old.length - at) / 2;
  }
  return 0;
}

/** True if `all` begins with what `old` holds from `from` on. */
function isStart(old: Uint32Array, from: number, all: Uint32Array): boolean {
  for (let at = from; at < old.length; at++) if (old[at] !== all[at - from]) return false;
  return true;
}
