import { KeySet, eachKey } from '../../extract/guards/key-set.ts';
import { keyFingerprints } from '../../shape/records/key-fingerprint.ts';

/** The keys that a walk has met, by their fingerprints. */
export class SeenKeys {
  readonly #met: KeySet;

  /** Holds so many fingerprints without growing. */
  constructor(size: number) {
    this.#met = new KeySet(size);
  }

  /** Adds what `keyFingerprints` has made. */
  add(fingerprints: Uint8Array): void {
    eachKey(fingerprints, (high, low) => this.#met.add(high, low));
  }

  /** Those of the keys that the walk has not met. */
  missingAmong(keys: readonly string[]): string[] {
    const isMet: boolean[] = [];
    eachKey(keyFingerprints(keys), (high, low) => isMet.push(this.#met.has(high, low)));
    return keys.filter((_, index) => isMet[index] === false);
  }
}
