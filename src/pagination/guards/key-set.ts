// Compact sets of hashed record keys, and functions that compare the keys of two pages. A scan remembers the key of
// every record that it has seen, to count distinct ones: a million take 16 MB here, and ten times as much in a `Set`.
import { hash } from 'node:crypto';
import type { SourceRecord } from '../../model/json.ts';
import { KEY_FINGERPRINT_BYTES, keyFingerprints, recordKey } from '../../rows/records/record-key.ts';

const MIN_SLOTS = 64;
/** The set grows when this fraction of its slots is used: it takes 11 to 16 bytes per hash. */
const MAX_LOAD = 0.75;
const GROWTH = 1.5;
const UNITS = 2 ** 32;
/** Spreads consecutive values (Knuth's multiplicative hashing). */
const GOLDEN = 0x9e3779b1;

/** A set of 64-bit hashes, each as two 32-bit halves (open addressing): a million take about 16 MB. */
export class KeySet {
  // Pairs of halves; a pair that begins with zero is an empty slot.
  #halves: Uint32Array;
  size = 0;

  /** `expected` hashes fit before the set has to grow. */
  constructor(expected = 1_024) {
    this.#halves = new Uint32Array(2 * Math.max(MIN_SLOTS, Math.ceil(expected / MAX_LOAD) + 1));
  }

  /** Adds a hash. Returns false if the set has it. */
  add(high: number, low: number): boolean {
    const at = this.#find(high, low);
    if (this.#halves[at] !== 0) return false;
    this.#halves[at] = nonZero(high);
    this.#halves[at + 1] = low;
    this.size += 1;
    if (2 * this.size > this.#halves.length * MAX_LOAD) this.#grow();
    return true;
  }

  has(high: number, low: number): boolean {
    return this.#halves[this.#find(high, low)] !== 0;
  }

  bytes(): number {
    return this.#halves.byteLength;
  }

  #grow(): void {
    const halves = this.#halves;
    this.#halves = new Uint32Array(2 * Math.ceil((halves.length / 2) * GROWTH));
    this.size = 0;
    for (let at = 0; at < halves.length; at += 2) {
      const high = halves[at] ?? 0;
      if (high !== 0) this.add(high, halves[at + 1] ?? 0);
    }
  }

  /** Returns the slot of a hash, or the empty slot where it belongs. */
  #find(high: number, low: number): number {
    const halves = this.#halves;
    const { length } = halves;
    const first = nonZero(high);
    const second = low >>> 0;
    let at = 2 * Math.floor(((Math.imul(second, GOLDEN) >>> 0) / UNITS) * (length / 2));
    while (halves[at] !== 0 && (halves[at] !== first || halves[at + 1] !== second)) {
      at += 2;
      if (at === length) at = 0;
    }
    return at;
  }
}

/** Zero marks an empty slot. */
function nonZero(high: number): number {
  return high >>> 0 || 1;
}

/** Remembers texts by 64 bits of their SHA-1. Two of a million texts collide once in 10^7 scans. */
export class TextSet {
  readonly #set = new KeySet();

  add(text: string): boolean {
    const digest = hash('sha1', text, 'buffer');
    return this.#set.add(digest.readUInt32LE(0), digest.readUInt32LE(4));
  }
}

const HALF_BYTES = KEY_FINGERPRINT_BYTES / 2;

/** Hashes the keys of records, in their order; records without a usable key have none. */
export function pageKeys(records: readonly SourceRecord[], id: string | string[]): Buffer {
  const keys: string[] = [];
  for (const record of records) {
    const found = recordKey(record.value, id);
    if ('key' in found) keys.push(found.key);
  }
  return keyFingerprints(keys);
}

/** Calls `visit` with each hash as two halves, in order. */
export function eachKey(keys: Uint8Array, visit: (high: number, low: number, index: number) => void): void {
  const aligned = keys.byteOffset % HALF_BYTES === 0 ? keys : new Uint8Array(keys);
  const halves = new Uint32Array(aligned.buffer, aligned.byteOffset, aligned.byteLength / HALF_BYTES);
  for (let at = 0; at < halves.length; at += 2) visit(halves[at] ?? 0, halves[at + 1] ?? 0, at / 2);
}

export function hasKey(set: KeySet, key: Uint8Array): boolean {
  let isThere = false;
  eachKey(key, (high, low) => (isThere = set.has(high, low)));
  return isThere;
}

function toSet(keys: Uint8Array): KeySet {
  const set = new KeySet(keys.length / KEY_FINGERPRINT_BYTES);
  eachKey(keys, (high, low) => set.add(high, low));
  return set;
}

/** Returns the index of the last of `keys` that is among `known`; -1 if none is. */
export function lastKnown(keys: Uint8Array, known: Uint8Array): number {
  if (keys.length === 0 || known.length === 0) return -1;
  const set = toSet(known);
  let last = -1;
  eachKey(keys, (high, low, index) => (last = set.has(high, low) ? index : last));
  return last;
}

export function sharedKeys(keys: Uint8Array, known: Uint8Array): number {
  const set = toSet(known);
  let count = 0;
  eachKey(keys, (high, low) => (count += set.has(high, low) ? 1 : 0));
  return count;
}

export function sameKeys(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0;
}

/** Counts the keys at the end of `before` with which `keys` begins: earlier insertions pushed them to the next page. */
export function countPushed(before: Uint8Array, keys: Uint8Array): number {
  for (let at = Math.max(0, before.length - keys.length); at < before.length; at += KEY_FINGERPRINT_BYTES) {
    if (sameKeys(before.subarray(at), keys.subarray(0, before.length - at))) {
      return (before.length - at) / KEY_FINGERPRINT_BYTES;
    }
  }
  return 0;
}
