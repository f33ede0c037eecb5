import type { BaseRecords } from './base-records.ts';

/** One record in listing order. */
export interface Entry {
  rank: number;
  key: string;
  /** Epoch milliseconds, for `updated_since`. */
  time: number;
  text: Uint8Array;
}

/** A place in the merged order: the next base position and the next place among the written records. */
export interface Place {
  base: number;
  written: number;
}

/** Changes since the start over the base records, of which a million stay uncopied. */
export class Overlay {
  readonly #base: BaseRecords;
  readonly #changes = new Map<string, Entry | null>();
  /** Sorted by (rank, key). */
  readonly #written: Entry[] = [];
  /** Positions of base records that are gone or rewritten, sorted. */
  readonly #hidden: number[] = [];

  constructor(base: BaseRecords) {
    this.#base = base;
  }

  /** The record as it was last written, null if it was deleted, undefined if the base still holds. */
  changeOf(key: string): Entry | null | undefined {
    return this.#changes.get(key);
  }

  get size(): number {
    return this.#base.size - this.#hidden.length + this.#written.length;
  }

  set(key: string, entry: Entry | null): void {
    const earlier = this.#changes.get(key);
    if (earlier === undefined) this.#hide(this.#base.positionOf(key));
    if (earlier) this.#written.splice(this.#writtenBefore(earlier.rank, earlier.key), 1);
    if (entry) this.#written.splice(this.#writtenBefore(entry.rank, entry.key), 0, entry);
    this.#changes.set(key, entry);
  }

  /** The first place whose (rank, key) is not below the given one. */
  seek(rank: number, key: string): Place {
    return { base: this.#baseBefore(rank, key), written: this.#writtenBefore(rank, key) };
  }

  /** The place that has `offset` records before it. */
  place(offset: number): Place {
    const base = firstWhere(0, this.#base.size + 1, (position) => this.#mergedBefore(position) > offset) - 1;
    const rest = offset - this.#mergedBefore(base);
    const written = base >= this.#base.size ? this.#written.length : this.#writtenBeforeBase(base);
    if (rest === 0) return { base, written };
    return { base: base + 1, written: written + rest - (this.#isHidden(base) ? 0 : 1) };
  }

  /** The number of records before a place. */
  before(place: Place): number {
    return place.base - this.#hiddenBefore(place.base) + place.written;
  }

  /** The record at a place and the place after it; null at the end. */
  step(place: Place): { entry: Entry; next: Place } | null {
    let base = place.base;
    while (this.#isHidden(base)) base += 1;
    const entry = this.#written[place.written];
    if (base < this.#base.size && (entry === undefined || this.#isBefore(base, entry.rank, entry.key))) {
      return { entry: this.#baseEntry(base), next: { base: base + 1, written: place.written } };
    }
    return entry === undefined ? null : { entry, next: { base, written: place.written + 1 } };
  }

  /** Times of all records, for counting without reading any text. */
  *times(): Generator<number> {
    for (let position = 0; position < this.#base.size; position += 1) {
      if (!this.#isHidden(position)) yield this.#base.timeAt(position);
    }
    for (const entry of this.#written) yield entry.time;
  }

  #baseEntry(position: number): Entry {
    const base = this.#base;
    return {
      rank: base.rankAt(position),
      key: base.keyAt(position),
      time: base.timeAt(position),
      get text() {
        return base.textAt(position);
      },
    };
  }

  #hide(position: number): void {
    if (position === -1) return;
    this.#hidden.splice(this.#hiddenBefore(position), 0, position);
  }

  #isHidden(position: number): boolean {
    return this.#hidden.length > 0 && this.#hidden[this.#hiddenBefore(position)] === position;
  }

  #hiddenBefore(position: number): number {
    return firstWhere(0, this.#hidden.length, (index) => (this.#hidden[index] ?? 0) >= position);
  }

  #mergedBefore(position: number): number {
    const written = position >= this.#base.size ? this.#written.length : this.#writtenBeforeBase(position);
    return position - this.#hiddenBefore(position) + written;
  }

  #writtenBeforeBase(position: number): number {
    return this.#written.length === 0
      ? 0
      : this.#writtenBefore(this.#base.rankAt(position), this.#base.keyAt(position));
  }

  #writtenBefore(rank: number, key: string): number {
    return firstWhere(0, this.#written.length, (index) => {
      const entry = this.#written[index];
      return entry !== undefined && (entry.rank > rank || (entry.rank === rank && entry.key >= key));
    });
  }

  #baseBefore(rank: number, key: string): number {
    return firstWhere(0, this.#base.size, (position) => !this.#isBefore(position, rank, key));
  }

  #isBefore(position: number, rank: number, key: string): boolean {
    const own = this.#base.rankAt(position);
    return own < rank || (own === rank && this.#base.keyAt(position) < key);
  }
}

/** The first number in [from, to) for which `holds` is true, as it must be for all later ones; else `to`. */
function firstWhere(from: number, to: number, holds: (value: number) => boolean): number {
  let [low, high] = [from, to];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
