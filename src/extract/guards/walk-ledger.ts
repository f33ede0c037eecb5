import { createHash } from 'node:crypto';
import { KEY_FINGERPRINT_BYTES } from '../../shape/records/key-fingerprint.ts';
import { KeptKeys } from './kept-keys.ts';
import { KeySet } from './key-set.ts';
import { eachKey, lastKnown, pushedOn } from './page-keys.ts';
import { holds, sizeOf, type LedgerEntry, type MetPage, type WalkBefore, type WatchedPage } from './met-page.ts';
import { doubtsOf, type Doubt, type SureRecord } from './walk-end.ts';

/** Pages in a row without a new record that are believed, however few had brought one before. */
const MOST_STALE_PAGES = 20;

/**
 * All that a walk has met so far, page by page: enough to tell whether records moved between the pages while they were read.
 * A record that comes twice has moved, or has pushed others on; a total that changed says that some came or went.
 */
export class WalkLedger {
  readonly #keys = new KeySet();
  readonly #pages: WatchedPage[] = [];
  readonly #kept = new KeptKeys();
  /** True if pages are cut by number, so that what moves shifts them. */
  #isCutByNumber: boolean;
  readonly #hasParts: boolean;
  #leastTotal: number | null;
  #lastTotal: number | null = null;
  /** True if two pages one behind the other told the same total: it is one of the listing, not of each page. */
  #hasSteadyTotal = false;
  /** Null if the walk was taken up without what it had met before. */
  #records: number | null;
  #staleRun = 0;
  #productive = 0;
  #received = 0;
  #unkeyed = 0;
  #entered = 0;
  /** The page that first held a record which came again much later: from there on one may have slipped past. */
  #slippedFrom: number | null = null;
  #unwatched = false;
  #ascends = true;
  #latest = -Infinity;

  /** `hasParts`: a record may stand on many pages, and counts once. */
  constructor(isCutByNumber: boolean, { pages, records, leastTotal }: WalkBefore, hasParts = false) {
    this.#isCutByNumber = isCutByNumber;
    this.#hasParts = hasParts;
    this.#leastTotal = leastTotal;
    for (const page of pages) {
      // A page that was read again stands twice.
      const isAgain = this.last?.position === page.position;
      this.#admitKeys(page, Infinity);
      this.#unkeyed += page.unkeyed;
      if (!isAgain) this.#received += sizeOf(page);
    }
    this.#records = isCutByNumber && pages.length === 0 && records !== 0 ? null : records;
    // Times are not kept over a kill.
    if (pages.length > 0) this.#ascends = false;
  }

  /** The pages have no numbers after all: what moves shifts nothing. */
  unwatch(): void {
    this.#isCutByNumber = false;
    this.#pages.length = 0;
    this.#unwatched = false;
    this.#entered = 0;
    this.#slippedFrom = null;
  }

  /** The page before the one that comes; null at the beginning. */
  get last(): MetPage | null {
    return this.#pages.at(-1) ?? null;
  }

  /** Records on all pages so far, those that came twice counted twice; null if nobody counted. */
  get received(): number | null {
    return this.#records === null ? null : this.#received;
  }

  /** Records so far, each of them once if pages are cut by number; null if nobody counted. */
  get met(): number | null {
    return this.#isCutByNumber && this.#records !== null ? this.#keys.size + this.#unkeyed : this.#records;
  }

  /** True if so many pages in a row brought no new record that the walk goes in circles. */
  get isLoop(): boolean {
    return !this.#hasParts && this.#staleRun >= Math.max(MOST_STALE_PAGES, this.#productive);
  }

  get isWatched(): boolean {
    return this.#isCutByNumber;
  }

  /** True if there was a boundary between pages over which records may have moved unseen. */
  get hasUnwatched(): boolean {
    return this.#unwatched;
  }

  /** The latest total that was told; null if none was. */
  get lastTotal(): number | null {
    return this.#lastTotal;
  }

  /** True if a total is told and that many records were met, some of which may have been deleted since. */
  get hasMetAll(): boolean {
    return this.#leastTotal !== null && (this.met ?? -1) >= this.#leastTotal;
  }

  /** True if a total is told, that many records were met, and the pages reach as far as it now is. */
  get isComplete(): boolean {
    return this.hasMetAll && !this.#endsBeforeTotal;
  }

  /** True if pages by number cover fewer places than the latest total says there are. */
  get #endsBeforeTotal(): boolean {
    return this.#isCutByNumber && this.#lastTotal !== null && (this.received ?? Infinity) < this.#lastTotal;
  }

  /** True if this total says that records came or went since the page before. */
  hasMoved(total: number | null): boolean {
    return this.#lastTotal !== null && total !== null && total !== this.#lastTotal;
  }

  /**
   * True if a page that was read again may have come from a replica that lags, its total being none of the page behind
   * it: what such a page holds says nothing about what moved since. A total that is another one on each page is no sign.
   */
  mayBeOlder(total: number | null): boolean {
    return this.#hasSteadyTotal || this.hasMoved(total);
  }

  /** The page before, read again: what slipped from it is no longer missing. Returns how many keys on it are new. */
  reread(page: LedgerEntry): number {
    this.#noteTotal(page.total);
    const known = this.#keys.size;
    eachKey(page.keys, (high, low) => this.#keys.add(high, low));
    const last = this.#pages.at(-1);
    if (last !== undefined) last.keys = this.#kept.keep(page.keys);
    return this.#keys.size - known;
  }

  /** Nothing of the page before was found again where it was looked for. */
  loseTrack(): void {
    this.#slippedFrom = Math.min(this.#slippedFrom ?? Infinity, Math.max(0, this.#pages.length - 1));
  }

  /** Takes in a page. Returns true if it begins with records of the page before, of which it was not asked for any. */
  admit(entry: LedgerEntry): boolean {
    const totalBefore = this.#lastTotal;
    const isFirst = this.#pages.length === 0;
    if (totalBefore !== null && entry.total === totalBefore) this.#hasSteadyTotal = true;
    this.#noteTotal(entry.total);
    if (this.#records !== null) this.#records += entry.unkeyed;
    this.#unkeyed += entry.unkeyed;
    const shared = entry.overlap === Infinity ? this.#sharedBy(entry) : entry.overlap;
    this.#received += sizeOf(entry) - shared;
    const again = this.#admitKeys(entry, entry.overlap) - entry.overlap;
    const grown = totalBefore === null || entry.total === null ? 0 : entry.total - totalBefore;
    if (this.#isCutByNumber) {
      // Records that were created at the head push as many on; what is created is not missed.
      if (again > Math.max(0, grown)) this.#entered += 1;
      if (!isFirst && entry.isBoundary && entry.total === null && entry.overlap === 0) this.#unwatched = true;
    }
    this.#followTimes(entry);
    return again > 0;
  }

  #sharedBy({ keys }: MetPage): number {
    return this.last === null ? 0 : lastKnown(keys, this.last.keys) + 1;
  }

  /** The doubts against the walk, now that it has ended. */
  doubts(): Doubt[] {
    return doubtsOf({
      // As many as the total says, but not all of them where it says that there are any: some are gone, others unread.
      hasSlipped: this.#slippedFrom !== null || (this.hasMetAll && this.#endsBeforeTotal),
      hasEntered: this.#entered > 0,
      isUnwatched: this.#unwatched,
      met: this.met,
      leastTotal: this.#leastTotal,
    });
  }

  /** One text for all pages, which another walk that meets the same has too. */
  prints(): string {
    const digest = createHash('sha1');
    for (const { keys } of this.#pages) digest.update(keys);
    return digest.digest('hex');
  }

  /** The last record that was read before anything moved; null if the listing does not ascend by time. */
  sure(): SureRecord | null {
    if (!this.#ascends || this.#slippedFrom === null) return null;
    const page = this.#pages[this.#slippedFrom - 1];
    if (page === undefined || page.lastUpdated === null || page.keys.length === 0) return null;
    return { key: page.keys.subarray(-KEY_FINGERPRINT_BYTES), updated: page.lastUpdated };
  }

  /** How many of the keys are met for the first time. */
  newAmong(keys: Uint8Array): number {
    let count = 0;
    eachKey(keys, (high, low) => (count += this.#keys.has(high, low) ? 0 : 1));
    return count;
  }

  /** True if a record with this key's fingerprint was met. */
  has(key: Uint8Array): boolean {
    let found = false;
    eachKey(key, (high, low) => (found = this.#keys.has(high, low)));
    return found;
  }

  #noteTotal(total: number | null): void {
    if (total === null) return;
    this.#leastTotal = Math.min(this.#leastTotal ?? total, total);
    this.#lastTotal = total;
  }

  /** Returns with how many of the last records of the page before the page begins. */
  #admitKeys({ position, keys, unkeyed }: MetPage, overlap: number): number {
    let isNew = false;
    const knownBefore = this.#keys.size;
    const again = this.#isCutByNumber ? pushedOn(this.last?.keys ?? new Uint8Array(), keys) : 0;
    eachKey(keys, (high, low, index) => {
      if (this.#keys.add(high, low)) isNew = true;
      else if (this.#isCutByNumber && index >= again && overlap !== Infinity) this.#slipped(high, low);
    });
    const counted = this.#hasParts ? this.#keys.size - knownBefore : keys.length / KEY_FINGERPRINT_BYTES;
    if (this.#records !== null) this.#records += counted;
    if (isNew) this.#productive += 1;
    if (keys.length > 0) this.#staleRun = isNew ? 0 : this.#staleRun + 1;
    if (this.#isCutByNumber) this.#pages.push({ position, keys: this.#kept.keep(keys), unkeyed, lastUpdated: null });
    return again;
  }

  /** A record that was there before, and was not pushed on: it moved, and those between moved the other way. */
  #slipped(high: number, low: number): void {
    const first = this.#pages.findIndex(({ keys }) => holds(keys, high, low));
    if (first !== -1) this.#slippedFrom = Math.min(this.#slippedFrom ?? Infinity, first);
  }

  #followTimes({ updated }: LedgerEntry): void {
    for (const time of updated) {
      if (time === null || time.at < this.#latest) this.#ascends = false;
      else this.#latest = time.at;
    }
    const page = this.#pages.at(-1);
    if (page !== undefined) page.lastUpdated = updated.at(-1)?.text ?? null;
  }
}
