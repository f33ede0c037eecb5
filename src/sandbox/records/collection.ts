// The sorted records of one sandbox resource.

/** Orders of listings: by (updated_at, id), or an arbitrary but stable one. */
export type Sort = 'updated' | 'none';

/** One record; the order of a listing is by (rank, key). */
export interface CollectionEntry {
  readonly rank: number;
  /** Unique; the record's id, unless that is missing or occurs twice. */
  readonly key: string;
  /** Epoch milliseconds, for `updated_since`. */
  readonly time: number;
  /** The JSON text as it is sent. */
  readonly text: Uint8Array;
}

export interface StartingRecords {
  entries: readonly CollectionEntry[];
  /** Returns the rank of a record that is written later, if `Sort` is `none`. */
  rankOf(key: string): number;
  /** True if the records have an `updated_at`, which the service then sets on every write. */
  hasUpdatedAt: boolean;
}

export const NO_RECORDS: StartingRecords = { entries: [], rankOf: hashKey, hasUpdatedAt: true };

/** Where a page starts: after a record (keyset), or after a number of records. */
export type PageStart = { after: { rank: number; key: string } } | { offset: number };

interface Slice {
  entries: CollectionEntry[];
  /** True if a record follows the last one. */
  more: boolean;
  /** Records in the listing, `updated_since` counted in. */
  total: number;
}

interface PendingChange {
  due: number;
  key: string;
  entry: CollectionEntry | null;
}

/**
 * The records of one resource. Single reads see a write at once; the listing shows it after the visibility lag, sorted
 * by `updated_at`, as after a late commit.
 */
export class Collection {
  readonly hasUpdatedAt: boolean;
  readonly #start: StartingRecords;
  readonly #sort: Sort;
  readonly #lagMs: number;
  readonly #current: SortedEntries;
  readonly #shown: SortedEntries;
  #pending: PendingChange[] = [];
  #version = 0;

  constructor(start: StartingRecords, sort: Sort, lagMs: number) {
    this.hasUpdatedAt = start.hasUpdatedAt;
    this.#start = start;
    this.#sort = sort;
    this.#lagMs = lagMs;
    this.#current = new SortedEntries(start.entries);
    this.#shown = lagMs > 0 ? new SortedEntries(start.entries) : this.#current;
  }

  /** Applies the changes that are visible by `now`. Returns a number that grows with every visible change. */
  version(now: number): number {
    const due = this.#pending.filter((change) => change.due <= now);
    for (const { key, entry } of due) this.#shown.set(key, entry);
    if (due.length > 0) {
      this.#pending = this.#pending.filter((change) => change.due > now);
      this.#version += 1;
    }
    return this.#version;
  }

  get(key: string): Uint8Array | null {
    return this.#current.byKey.get(key)?.text ?? null;
  }

  /** Writes (`text`) or deletes (null) a record. */
  set(key: string, text: Uint8Array | null, time: number, now: number): void {
    const known = this.#current.byKey.get(key)?.rank;
    const rank = this.#sort === 'updated' ? time : (known ?? this.#start.rankOf(key));
    const entry = text === null ? null : { key, text, time, rank };
    this.#current.set(key, entry);
    if (this.#lagMs > 0) this.#pending.push({ key, entry, due: now + this.#lagMs });
    else this.#version += 1;
  }

  /** One page of the listing as it is shown now. */
  slice(start: PageStart, limit: number, since: number | null): Slice {
    const listed = this.#listed(since);
    const first = since !== null && this.#sort === 'updated' ? indexOf(listed, since, '') : 0;
    // The smallest key after the last one is that key with a NUL.
    const from =
      'offset' in start
        ? first + start.offset
        : Math.max(first, indexOf(listed, start.after.rank, `${start.after.key}\u0000`));
    const entries = listed.slice(from, from + limit);
    return { entries, more: from + limit < listed.length, total: listed.length - first };
  }

  /** Returns every record in listing order, also those that the listing does not show yet. */
  all(): readonly CollectionEntry[] {
    return this.#current.sorted;
  }

  #listed(since: number | null): readonly CollectionEntry[] {
    const { sorted } = this.#shown;
    return since === null || this.#sort === 'updated' ? sorted : sorted.filter(({ time }) => time >= since);
  }
}

class SortedEntries {
  readonly sorted: CollectionEntry[];
  readonly byKey: Map<string, CollectionEntry>;

  constructor(entries: readonly CollectionEntry[]) {
    this.sorted = [...entries];
    this.byKey = new Map(entries.map((entry) => [entry.key, entry]));
  }

  set(key: string, entry: CollectionEntry | null): void {
    const before = this.byKey.get(key);
    if (before !== undefined) this.sorted.splice(indexOf(this.sorted, before.rank, key), 1);
    if (entry === null) this.byKey.delete(key);
    else {
      this.sorted.splice(indexOf(this.sorted, entry.rank, key), 0, entry);
      this.byKey.set(key, entry);
    }
  }
}

/** Returns the index of the first entry that is not below (rank, key). */
function indexOf(entries: readonly CollectionEntry[], rank: number, key: string): number {
  let [low, high] = [0, entries.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    const entry = entries[middle];
    if (entry !== undefined && (entry.rank < rank || (entry.rank === rank && entry.key < key))) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** A 32-bit FNV-1a hash: an arbitrary rank for each key, the same in every run. */
export function hashKey(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  return hash >>> 0;
}
