import { keyFingerprints } from '../../shape/records/key-fingerprint.ts';

/** Slots per record at least: fewer make looking for one slow. */
const LOOSE = 2;
const FIRST_SLOTS = 1_024;
/** Words of 32 bits per record: two of its key, two of what it says, one of flags. */
const WORDS = 5;
const USED = 1;
const SINCE = 2;

/**
 * What a listing has shown of its records, in twenty bytes each: fingerprints of the key and of what the record says.
 * Records that it showed more than once count as they were shown last.
 */
export class MetRecords {
  #slots = FIRST_SLOTS;
  #words = new Uint32Array(FIRST_SLOTS * WORDS);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** `content` as hexadecimal digits, null if it is not to be compared; `isSince` if it changed since the copy was brought up to date. */
  add(key: string, content: string | null, isSince: boolean): void {
    if ((this.#size + 1) * LOOSE > this.#slots) this.#grow();
    const [first, second] = halvesOf(key);
    const at = this.#find(first, second);
    if ((this.#words[at + 4] ?? 0) === 0) this.#size += 1;
    this.#words.set([first, second, ...wordsOf(content), USED | (isSince ? SINCE : 0)], at);
  }

  /** How the record was shown: null if it was not. `content` is compared with what was added. */
  look(key: string, content: string | null): { isSame: boolean; isCompared: boolean; isSince: boolean } | null {
    const [first, second] = halvesOf(key);
    const at = this.#find(first, second);
    const flags = this.#words[at + 4] ?? 0;
    if (flags === 0) return null;
    const [high, low] = wordsOf(content);
    const isCompared = this.#words[at + 2] !== 0 || this.#words[at + 3] !== 0;
    const isSame = content !== null && this.#words[at + 2] === high && this.#words[at + 3] === low;
    return { isSame, isCompared, isSince: (flags & SINCE) !== 0 };
  }

  /** The slot of a key, or the free one where it would be. */
  #find(first: number, second: number): number {
    const words = this.#words;
    for (let slot = first % this.#slots; ; slot = (slot + 1) % this.#slots) {
      const at = slot * WORDS;
      if (words[at + 4] === 0 || (words[at] === first && words[at + 1] === second)) return at;
    }
  }

  #grow(): void {
    const before = this.#words;
    this.#slots *= 2;
    this.#words = new Uint32Array(this.#slots * WORDS);
    for (let at = 0; at < before.length; at += WORDS) {
      if (before[at + 4] === 0) continue;
      this.#words.set(before.subarray(at, at + WORDS), this.#find(before[at] ?? 0, before[at + 1] ?? 0));
    }
  }
}

function halvesOf(key: string): [number, number] {
  const bytes = keyFingerprints([key]);
  return [bytes.readUInt32LE(0), bytes.readUInt32LE(4)];
}

/** Never two zeros, which stand for nothing. */
function wordsOf(content: string | null): [number, number] {
  if (content === null) return [0, 0];
  return [Number.parseInt(content.slice(0, 8), 16) || 1, Number.parseInt(content.slice(8, 16), 16)];
}
