import { KEY_FINGERPRINT_BYTES, keyFingerprints } from '../shape/key-fingerprint.ts';

const FIRST_SLOTS = 1_024;

/** The keys that a walk has met, by their fingerprints: 11 to 32 bytes each, so that a million stay small. */
export class SeenKeys {
  // Pairs of 32-bit halves; a pair of zeros is an empty slot.
  readonly #slots: Int32Array;

  /** Holds up to so many fingerprints. */
  constructor(size: number) {
    let slots = FIRST_SLOTS;
    while (slots < size * 1.4) slots *= 2;
    this.#slots = new Int32Array(slots * 2);
  }

  /** Adds what `keyFingerprints` has made. */
  add(fingerprints: Uint8Array): void {
    const bytes = Buffer.from(fingerprints.buffer, fingerprints.byteOffset, fingerprints.byteLength);
    for (let at = 0; at + KEY_FINGERPRINT_BYTES <= bytes.length; at += KEY_FINGERPRINT_BYTES) {
      const [high, low] = halves(bytes, at);
      const slot = this.#find(high, low);
      this.#slots[slot] = high;
      this.#slots[slot + 1] = low;
    }
  }

  /** Those of the keys that the walk has not met. */
  missingAmong(keys: readonly string[]): string[] {
    const bytes = keyFingerprints(keys);
    return keys.filter((_, index) => {
      const [high, low] = halves(bytes, index * KEY_FINGERPRINT_BYTES);
      return this.#slots[this.#find(high, low)] === 0;
    });
  }

  /** Where the fingerprint stands, or the empty slot where it would. */
  #find(high: number, low: number): number {
    const slots = this.#slots;
    const mask = slots.length - 1;
    for (let at = (low << 1) & mask; ; at = (at + 2) & mask) {
      if (slots[at] === 0 || (slots[at] === high && slots[at + 1] === low)) return at;
    }
  }
}

/** The first one is never zero, which marks an empty slot. */
function halves(bytes: Buffer, at: number): [high: number, low: number] {
  return [bytes.readInt32LE(at) || 1, bytes.readInt32LE(at + 4)];
}
