import { hash } from 'node:crypto';
import type { SourceRecord } from '../../model/json.ts';
import { KEY_FINGERPRINT_BYTES, keyFingerprints } from '../../rows/records/key-fingerprint.ts';
import { recordKey } from '../../rows/records/record-key.ts';

/** Slots of a set that was told nothing. */
const FIRST_SLOTS = 1_024;
/** At most this much of the slots is taken, and so much larger a full set becomes: 11 to 16 bytes for each fingerprint. */
const MOST_TAKEN = 0.75;
const GROWTH = 1.5;
const UNITS = 2 ** 32;
/** Spreads halves that follow each other, see Knuth's multiplicative hashing. */
const GOLDEN = 0x9e3779b1;

/** A set of 64-bit fingerprints, each as two 32-bit halves, so that a million stay small (open addressing). */
export class KeySet {
  // Pairs of halves; a pair that begins with zero is an empty slot.
  #halves: Uint32Array;
  size = 0;

  /** So many fingerprints fit before it has to grow. */
  constructor(expected = 0) {
    this.#halves = new Uint32Array(2 * Math.max(FIRST_SLOTS, Math.ceil(expected / MOST_TAKEN) + 1));
  }

  /** Adds a fingerprint; false if it was there already. */
  add(high: number, low: number): boolean {
    const at = this.#find(high, low);
    if (this.#halves[at] !== 0) return false;
    this.#halves[at] = firstHalf(high);
    this.#halves[at + 1] = low;
    this.size += 1;
    if (2 * this.size > this.#halves.length * MOST_TAKEN) this.#grow();
    return true;
  }

  has(high: number, low: number): boolean {
    return this.#halves[this.#find(high, low)] !== 0;
  }

  /** The memory that it takes. */
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

  /** Where the fingerprint is, or the empty slot in which it would be. */
  #find(high: number, low: number): number {
    const halves = this.#halves;
    const { length } = halves;
    const first = firstHalf(high);
    const second = low >>> 0;
    let at = 2 * Math.floor(((Math.imul(second, GOLDEN) >>> 0) / UNITS) * (length / 2));
    while (halves[at] !== 0 && (halves[at] !== first || halves[at + 1] !== second)) {
      at += 2;
      if (at === length) at = 0;
    }
    return at;
  }
}

/** Never the zero that marks an empty slot. */
function firstHalf(high: number): number {
  return high >>> 0 || 1;
}

/**
 * Remembers which texts were there before, by 64 bits of their SHA-1, so a walk of a million pages stays small. Two of a
 * million texts look alike once in 10^7 walks.
 */
export class FingerprintSet {
  private readonly set = new KeySet();

  /** Adds the text; false if it was there already. */
  add(text: string): boolean {
    const digest = hash('sha1', text, 'buffer');
    return this.set.add(digest.readUInt32LE(0), digest.readUInt32LE(4));
  }
}

const HALF_BYTES = KEY_FINGERPRINT_BYTES / 2;

/** Fingerprints of the keys of records, in their order, as `keyFingerprints` makes them; one without a usable key has none. */
export function pageKeys(records: readonly SourceRecord[], id: string | string[]): Buffer {
  const keys: string[] = [];
  for (const record of records) {
    const found = recordKey(record.value, id);
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
