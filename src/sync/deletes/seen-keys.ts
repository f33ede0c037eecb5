import { KEY_FINGERPRINT_BYTES, keyFingerprints } from '../../shape/records/key-fingerprint.ts';

const FIRST_SLOTS = 1_024;

/** The keys that a walk has met, by their fingerprints: 11 to 23 bytes each, so that a million stay small. */
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
    const halves = halvesOf(fingerprints);
    for (let at = 0; at < halves.length; at += 2) {
      // Never the zero that marks an empty slot.
      const first = halves[at] || 1;
      const second = halves[at + 1] ?? 0;
      const slot = slotOf(this.#slots, first, second);
      this.#slots[slot] = first;
      this.#slots[slot + 1] = second;
    }
  }

  /** Those of the keys that the walk has not met. */
  missingAmong(keys: readonly string[]): string[] {
    const halves = halvesOf(keyFingerprints(keys));
    return keys.filter((_, index) => {
      const slot = slotOf(this.#slots, halves[2 * index] || 1, halves[2 * index + 1] ?? 0);
      return this.#slots[slot] === 0;
    });
  }
}

/** Copied, because what comes out of a database may begin at any byte. */
function halvesOf(fingerprints: Uint8Array): Int32Array {
  const halves = new Int32Array((fingerprints.length / KEY_FINGERPRINT_BYTES) * 2);
  new Uint8Array(halves.buffer).set(fingerprints);
  return halves;
}

/** Where the fingerprint stands, or the empty slot where it would. */
function slotOf(slots: Int32Array, first: number, second: number): number {
  const mask = slots.length - 1;
  for (let at = (second << 1) & mask; ; at = (at + 2) & mask) {
    if (slots[at] === 0 || (slots[at] === first && slots[at + 1] === second)) return at;
  }
}
