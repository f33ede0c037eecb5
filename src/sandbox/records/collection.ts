// The records of one sandbox resource, sorted as its listing shows them: by `updated_at`, then by id.

export interface CollectionEntry {
  /** Unique; the record's id, unless that is missing or occurs twice. */
  readonly key: string;
  /** Epoch milliseconds of the last change. */
  readonly time: number;
  /** The JSON text as it is sent. */
  readonly text: Uint8Array;
}

/** Where a page starts: after a record, or after a number of records. */
export type PageStart = { after: { time: number; key: string } } | { offset: number };

interface ListedPage {
  entries: CollectionEntry[];
  /** True if a record follows the last one. */
  more: boolean;
  /** Records in the listing, of all pages. */
  total: number;
}

export class Collection {
  /** True if the records have an `updated_at`, which the service then sets on every write. */
  readonly hasUpdatedAt: boolean;
  readonly #sorted: CollectionEntry[];
  readonly #byKey: Map<string, CollectionEntry>;

  constructor(entries: readonly CollectionEntry[], hasUpdatedAt: boolean) {
    this.hasUpdatedAt = hasUpdatedAt;
    this.#sorted = entries.toSorted((a, b) => a.time - b.time || (a.key < b.key ? -1 : 1));
    this.#byKey = new Map(entries.map((entry) => [entry.key, entry]));
  }

  get(key: string): Uint8Array | null {
    return this.#byKey.get(key)?.text ?? null;
  }

  /** Writes (`text`) or deletes (null) a record. */
  set(key: string, text: Uint8Array | null, time: number): void {
    const before = this.#byKey.get(key);
    if (before !== undefined) this.#sorted.splice(indexOf(this.#sorted, before), 1);
    this.#byKey.delete(key);
    if (text === null) return;
    const entry = { key, text, time };
    this.#sorted.splice(indexOf(this.#sorted, entry), 0, entry);
    this.#byKey.set(key, entry);
  }

  /** One page of the records that have changed since `since` (null for all records). */
  slice(start: PageStart, limit: number, since: number | null): ListedPage {
    const listed = since === null ? this.#sorted : this.#sorted.slice(indexOf(this.#sorted, { time: since, key: '' }));
    // The smallest key after the last one is that key with a NUL.
    const from =
      'offset' in start ? start.offset : indexOf(listed, { ...start.after, key: `${start.after.key}\u0000` });
    const entries = listed.slice(from, from + limit);
    return { entries, more: from + limit < listed.length, total: listed.length };
  }

  /** Returns every record in the order of the listing. */
  all(): readonly CollectionEntry[] {
    return this.#sorted;
  }
}

/** Returns the index of the first entry that is not before this position, by binary search. */
function indexOf(entries: readonly CollectionEntry[], { time, key }: { time: number; key: string }): number {
  let [low, high] = [0, entries.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    const entry = entries[middle];
    if (entry !== undefined && (entry.time < time || (entry.time === time && entry.key < key))) low = middle + 1;
    else high = middle;
  }
  return low;
}
