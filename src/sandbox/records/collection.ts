import { spread } from './record-facts.ts';

/** Orders of listings: by (updated_at, id), or an arbitrary but stable one. */
export type Sort = 'updated' | 'none';

/** One record; the order of a listing is by (rank, key). */
export interface Entry {
  readonly rank: number;
  /** Unique; the record's id, unless that is missing or occurs twice. */
  readonly key: string;
  /** Epoch milliseconds, for `updated_since`. */
  readonly time: number;
  /** The JSON text as it is sent. */
  readonly text: Uint8Array;
}

/** The records that a collection starts with. */
export interface StartingRecords {
  /** In listing order. */
  entries: readonly Entry[];
  /** The rank of a record that is written later, where `Sort` is `none`. */
  rankOf(key: string): number;
  /** True if the records have an `updated_at`, which the service then sets on every write. */
  stamped: boolean;
}

/** Of a collection that starts empty. */
export const NO_RECORDS: StartingRecords = { entries: [], rankOf: spread, stamped: true };

/** Where a page starts: after a record (keyset), or after a number of records. */
export type PageStart = { after: { rank: number; key: string } } | { offset: number };

export interface Slice {
  entries: Entry[];
  /** True if a record follows the last one. */
  more: boolean;
  /** Records in the listing, `updated_since` counted in. */
  total: number;
}

interface PendingChange {
  due: number;
  key: string;
  entry: Entry | null;
}

/**
 * One resource's records. A write is there at once for whoever reads the item; the listing shows it after the
 * visibility lag, in its place by `updated_at`, as a late commit does.
 */
export class Collection {
  readonly stamped: boolean;
  readonly #start: StartingRecords;
  readonly #sort: Sort;
  readonly #lagMs: number;
  readonly #current: SortedEntries;
  readonly #shown: SortedEntries;
  #pending: PendingChange[] = [];
  #version = 0;

  constructor(start: StartingRecords, sort: Sort, lagMs: number) {
    this.stamped = start.stamped;
    this.#start = start;
    this.#sort = sort;
    this.#lagMs = lagMs;
    this.#current = new SortedEntries(start.entries);
    this.#shown = lagMs > 0 ? new SortedEntries(start.entries) : this.#current;
  }

  /** Grows with every change that the listing shows; applies changes that have become visible by `now`. */
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
    const first = since !== null && this.#sort === 'updated' ? placeOf(listed, since, '') : 0;
    // The key that follows directly on the last one: it and a NUL.
    const from =
      'offset' in start
        ? first + start.offset
        : Math.max(first, placeOf(listed, start.after.rank, `${start.after.key}\u0000`));
    const entries = listed.slice(from, from + limit);
    return { entries, more: from + limit < listed.length, total: listed.length - first };
  }

  /** Every record there is, in listing order, whether the listing shows it yet or not. */
  all(): readonly Entry[] {
    return this.#current.sorted;
  }

  #listed(since: number | null): readonly Entry[] {
    const { sorted } = this.#shown;
    return since === null || this.#sort === 'updated' ? sorted : sorted.filter(({ time }) => time >= since);
  }
}

class SortedEntries {
  readonly sorted: Entry[];
  readonly byKey: Map<string, Entry>;

  constructor(entries: readonly Entry[]) {
    this.sorted = [...entries];
    this.byKey = new Map(entries.map((entry) => [entry.key, entry]));
  }

  set(key: string, entry: Entry | null): void {
    const before = this.byKey.get(key);
    if (before !== undefined) this.sorted.splice(placeOf(this.sorted, before.rank, key), 1);
    if (entry === null) this.byKey.delete(key);
    else {
      this.sorted.splice(placeOf(this.sorted, entry.rank, key), 0, entry);
      this.byKey.set(key, entry);
    }
  }
}

/** The first place whose (rank, key) is not below the given one. */
function placeOf(entries: readonly Entry[], rank: number, key: string): number {
  let [low, high] = [0, entries.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    const entry = entries[middle];
    if (entry !== undefined && (entry.rank < rank || (entry.rank === rank && entry.key < key))) low = middle + 1;
    else high = middle;
  }
  return low;
}
