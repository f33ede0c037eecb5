import type { BaseRecords, Sort } from './base-records.ts';
import { type Entry, type Place, Overlay } from './overlay.ts';

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
  readonly base: BaseRecords;
  readonly #sort: Sort;
  readonly #lagMs: number;
  readonly #current: Overlay;
  readonly #shown: Overlay;
  #pending: PendingChange[] = [];
  #version = 0;
  #counted: { since: number; version: number; total: number } | null = null;

  constructor(base: BaseRecords, sort: Sort, lagMs: number) {
    this.base = base;
    this.#sort = sort;
    this.#lagMs = lagMs;
    this.#current = new Overlay(base);
    this.#shown = lagMs > 0 ? new Overlay(base) : this.#current;
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

  get size(): number {
    return this.#current.size;
  }

  get(key: string): Uint8Array | null {
    const change = this.#current.changeOf(key);
    if (change !== undefined) return change?.text ?? null;
    const position = this.base.positionOf(key);
    return position === -1 ? null : this.base.textAt(position);
  }

  /** Writes (`text`) or deletes (null) a record. */
  set(key: string, text: Uint8Array | null, time: number, now: number): void {
    const entry = text === null ? null : { key, text, time, rank: this.base.rankOf(key, time) };
    this.#current.set(key, entry);
    if (this.#lagMs > 0) this.#pending.push({ key, entry, due: now + this.#lagMs });
    else this.#version += 1;
  }

  /** One page of the listing as it is shown now. */
  slice(start: PageStart, limit: number, since: number | null): Slice {
    const entries: Entry[] = [];
    const skip = this.#mustScan(since) && 'offset' in start ? start.offset : 0;
    const walk = entriesFrom(this.#shown, this.#placeOf(start, since), since);
    for (let index = 0; index < skip; index += 1) if (walk.next().done === true) break;
    for (const entry of walk) {
      if (entries.length === limit) return { entries, more: true, total: this.#total(since) };
      entries.push(entry);
    }
    return { entries, more: false, total: this.#total(since) };
  }

  /** Every record there is, in listing order, whether the listing shows it yet or not. */
  all(): Generator<Entry> {
    return entriesFrom(this.#current, { base: 0, written: 0 }, null);
  }

  #placeOf(start: PageStart, since: number | null): Place {
    const first = since !== null && this.#sort === 'updated' ? this.#shown.seek(since, '') : { base: 0, written: 0 };
    if ('offset' in start)
      return this.#mustScan(since) ? first : this.#shown.place(this.#shown.before(first) + start.offset);
    // The key that follows directly on the last one: it and a NUL.
    const after = this.#shown.seek(start.after.rank, `${start.after.key}\u0000`);
    return this.#shown.before(after) > this.#shown.before(first) ? after : first;
  }

  /** Where the order does not follow time, a filter has to look at each record. */
  #mustScan(since: number | null): boolean {
    return since !== null && this.#sort === 'none';
  }

  #total(since: number | null): number {
    if (since === null) return this.#shown.size;
    if (!this.#mustScan(since)) return this.#shown.size - this.#shown.before(this.#shown.seek(since, ''));
    if (this.#counted?.since === since && this.#counted.version === this.#version) return this.#counted.total;
    let total = 0;
    for (const time of this.#shown.times()) if (time >= since) total += 1;
    this.#counted = { since, version: this.#version, total };
    return total;
  }
}

function* entriesFrom(overlay: Overlay, place: Place, since: number | null): Generator<Entry, undefined> {
  for (let step = overlay.step(place); step !== null; step = overlay.step(step.next)) {
    if (since === null || step.entry.time >= since) yield step.entry;
  }
}
