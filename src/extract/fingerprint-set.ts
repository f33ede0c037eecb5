import { hash } from 'node:crypto';

const FIRST_SLOTS = 1024;

/**
 * Remembers which texts were there before, by 64 bits of their SHA-1: 16 to 32 bytes a text, so a walk of a million
 * pages stays small (open addressing, at most half full). Two of a million texts look alike once in 10^7 walks.
 */
export class FingerprintSet {
  // Pairs of 32-bit halves; a pair of zeros is an empty slot.
  private slots = new Uint32Array(2 * FIRST_SLOTS);
  private size = 0;

  /** Adds the text; false if it was there already. */
  add(text: string): boolean {
    const digest = hash('sha1', text, 'buffer');
    // Never the pair of zeros that marks an empty slot.
    const high = digest.readUInt32LE(0) || 1;
    const low = digest.readUInt32LE(4);
    if (!insert(this.slots, high, low)) return false;
    this.size += 1;
    if (this.size * 4 > this.slots.length) this.slots = doubled(this.slots);
    return true;
  }

  /** The memory that it takes. */
  bytes(): number {
    return this.slots.byteLength;
  }
}

function insert(slots: Uint32Array, high: number, low: number): boolean {
  const mask = slots.length / 2 - 1;
  for (let slot = low & mask; ; slot = (slot + 1) & mask) {
    if (slots[2 * slot] === high && slots[2 * slot + 1] === low) return false;
    if (slots[2 * slot] !== 0) continue;
    slots[2 * slot] = high;
    slots[2 * slot + 1] = low;
    return true;
  }
}

function doubled(slots: Uint32Array): Uint32Array<ArrayBuffer> {
  const wider = new Uint32Array(slots.length * 2);
  for (let at = 0; at < slots.length; at += 2) {
    const high = slots[at] ?? 0;
    if (high !== 0) insert(wider, high, slots[at + 1] ?? 0);
  }
  return wider;
}
