import { hash } from 'node:crypto';
import { KeySet } from './key-set.ts';

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
