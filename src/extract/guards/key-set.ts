import { hash } from 'node:crypto';

const FIRST_SLOTS = 1024;

/**
 * A set of 64-bit fingerprints, each as two 32-bit halves: 11 to 22 bytes each, so that a million stay small (open
 * addressing, at most three quarters full).
 */
export class KeySet {
  // Pairs of halves; a pair of zeros is an empty slot.
  #slots: Uint32Array;
  #size = 0;

  /** So many fingerprints fit before it has to grow. */
  constructor(expected = 0) {
    let slots = FIRST_SLOTS;
    while (slots * 3 < expected * 4) slots *= 2;
    this.#slots = new Uint32Array(2 * slots);
  }

  get size(): number {
    return this.#size;
  }

  /** Adds a fingerprint; false if it was there already. */
  add(high: number, low: number): boolean {
    const slot = slotOf(this.#slots, high, low);
    if (this.#slots[slot] !== 0) return false;
    put(this.#slots, slot, high, low);
    this.#size += 1;
    if (this.#size * 8 > this.#slots.length * 3) this.#slots = doubled(this.#slots);
    return true;
  }

  has(high: number, low: number): boolean {
    return this.#slots[slotOf(this.#slots, high, low)] !== 0;
  }

  /** The memory that it takes. */
  bytes(): number {
    return this.#slots.byteLength;
  }
}

/** The slot of the fingerprint, or the empty one in which it would be. */
function slotOf(slots: Uint32Array, high: number, low: number): number {
  const first = high >>> 0 || 1;
  const second = low >>> 0;
  const mask = slots.length - 1;
  for (let at = (second << 1) & mask; ; at = (at + 2) & mask) {
    if (slots[at] === 0 || (slots[at] === first && slots[at + 1] === second)) return at;
  }
}

/** Never the zero that marks an empty slot. */
function put(slots: Uint32Array, slot: number, high: number, low: number): void {
  slots[slot] = high >>> 0 || 1;
  slots[slot + 1] = low >>> 0;
}

function doubled(slots: Uint32Array): Uint32Array<ArrayBuffer> {
  const wider = new Uint32Array(slots.length * 2);
  for (let at = 0; at < slots.length; at += 2) {
    const high = slots[at] ?? 0;
    const low = slots[at + 1] ?? 0;
    if (high !== 0) put(wider, slotOf(wider, high, low), high, low);
  }
  return wider;
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
