import { hash } from 'node:crypto';
import type { SourceRecord } from '../../model/json.ts';
import { KEY_FINGERPRINT_BYTES, keyFingerprints } from '../../shape/records/key-fingerprint.ts';
import { keyOfRecord } from '../../shape/records/record-key.ts';

/** Slots of a set that was told nothing. */
const FIRST_SLOTS = 1_024;
/** A set with more slots is kept in parts, which grow one by one: nobody has to hold the old and the new one of all. */
const MOST_SLOTS = 65_536;
const PART_BITS = 5;
/** At most this much of the slots is taken, and so much larger a full part becomes: 11 to 14 bytes for each fingerprint. */
const MOST_TAKEN = 0.75;
const GROWTH = 1.25;
const UNITS = 2 ** 32;
/** Spreads halves that follow each other, see Knuth's multiplicative hashing. */
const GOLDEN = 0x9e3779b1;

/** A set of 64-bit fingerprints, each as two 32-bit halves, so that a million stay small (open addressing). */
export class KeySet {
  readonly #parts: Part[];

  /** So many fingerprints fit before it has to grow. */
  constructor(expected = 0) {
    this.#parts = [new Part(Math.max(FIRST_SLOTS, Math.ceil(expected / MOST_TAKEN) + 1))];
  }

  get size(): number {
    return this.#parts.reduce((sum, { size }) => sum + size, 0);
  }

  /** Adds a fingerprint; false if it was there already. */
  add(high: number, low: number): boolean {
    const part = this.#partOf(high);
    if (!part.add(high, low)) return false;
    if (this.#parts.length === 1 && part.slots > MOST_SLOTS) this.#divide(part);
    return true;
  }

  has(high: number, low: number): boolean {
    return this.#partOf(high).has(high, low);
  }

  /** The memory that it takes. */
  bytes(): number {
    return this.#parts.reduce((sum, part) => sum + part.bytes, 0);
  }

  #partOf(high: number): Part {
    const { length } = this.#parts;
    const part = this.#parts[length === 1 ? 0 : firstHalf(high) >>> (32 - PART_BITS)];
    if (part === undefined) throw new Error('a set without a part for this fingerprint');
    return part;
  }

  #divide(whole: Part): void {
    const count = 2 ** PART_BITS;
    const slots = Math.ceil(whole.slots / count);
    this.#parts.splice(0, 1, ...Array.from({ length: count }, () => new Part(slots)));
    whole.drain((high, low) => this.#partOf(high).add(high, low));
  }
}

/** One table of slots. */
class Part {
  // Pairs of halves; a pair that begins with zero is an empty slot.
  #halves: Uint32Array<ArrayBuffer>;
  size = 0;

  constructor(slots: number) {
    this.#halves = new Uint32Array(2 * slots);
  }

  get slots(): number {
    return this.#halves.length / 2;
  }

  get bytes(): number {
    return this.#halves.byteLength;
  }

  add(high: number, low: number): boolean {
    const at = this.#find(high, low);
    if (this.#halves[at] !== 0) return false;
    this.#halves[at] = firstHalf(high);
    this.#halves[at + 1] = low;
    this.size += 1;
    if (this.size > this.slots * MOST_TAKEN) this.#grow();
    return true;
  }

  has(high: number, low: number): boolean {
    return this.#halves[this.#find(high, low)] !== 0;
  }

  /** Calls `visit` with each fingerprint. The part is empty then, and its memory is given back at once. */
  drain(visit: (high: number, low: number) => void): void {
    const halves = this.#halves;
    this.size = 0;
    for (let at = 0; at < halves.length; at += 2) {
      const high = halves[at] ?? 0;
      if (high !== 0) visit(high, halves[at + 1] ?? 0);
    }
    halves.buffer.transfer(0);
  }

  #grow(): void {
    const wider = new Part(Math.ceil(this.slots * GROWTH));
    this.drain((high, low) => wider.add(high, low));
    this.#halves = wider.#halves;
    this.size = wider.size;
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

  /** The memory that it takes. */
  bytes(): number {
    return this.set.bytes();
  }
}

/** Bytes of the first piece of memory, and of the largest: each is twice as large as the one before. */
const FIRST_PIECE = 4_096;
const LARGEST_PIECE = 1_048_576;

/**
 * The keys of all pages of a walk, laid one behind the other into few pieces of memory. In a piece for each page they
 * would stand between the bodies that come and go, and what those have left could not be given back: 18 MB per million records.
 */
export class KeptKeys {
  #piece: Buffer = Buffer.alloc(0);
  #used = 0;

  /** A copy, for as long as somebody holds it. */
  keep(keys: Uint8Array): Uint8Array {
    if (this.#used + keys.length > this.#piece.length) {
      const next = Math.min(Math.max(FIRST_PIECE, 2 * this.#piece.length), LARGEST_PIECE);
      this.#piece = Buffer.allocUnsafeSlow(Math.max(next, keys.length));
      this.#used = 0;
    }
    const kept = this.#piece.subarray(this.#used, this.#used + keys.length);
    kept.set(keys);
    this.#used += keys.length;
    return kept;
  }
}

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
