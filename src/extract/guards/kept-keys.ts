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
