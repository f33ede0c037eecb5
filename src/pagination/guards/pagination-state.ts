import type { Doubt, MissingRecords, PagePosition } from '../page.ts';
import type { UndeclaredSignals } from '../requests/listing-signals.ts';
import { eachKey, KeySet, hasKey, lastKnown, pushedOn } from './key-set.ts';
import { KEY_FINGERPRINT_BYTES } from '../../rows/records/key-fingerprint.ts';
import { createHash } from 'node:crypto';

/** A page as a walk remembers it. */
export interface MetPage {
  position: PagePosition;
  /** Fingerprints of its keys. */
  keys: Uint8Array;
  /** Records without a usable key. */
  unkeyed: number;
}

/** One page's entry in the ledger. */
export interface LedgerEntry extends MetPage {
  total: number | null;
  /** How many records it shares with the page before it, because it was asked for so; Infinity if any number is fine. */
  overlap: number;
  /** True if a record may have slipped between the page before and this one with nothing to show for it. */
  isBoundary: boolean;
  /** What its response says of the whole listing at places that the profile does not name. */
  signals: UndeclaredSignals;
}

/** The part of a walk that was stored before it was taken up again; nothing for a new one. */
export interface WalkBefore {
  pages: readonly MetPage[];
  /** True if these are all pages that it has read. */
  isWhole: boolean;
  leastTotal: number | null;
}

/** Records on a page, with and without a key. */
function sizeOf({ keys, unkeyed }: MetPage): number {
  return keys.length / KEY_FINGERPRINT_BYTES + unkeyed;
}

/** True if a fingerprint is among the keys. */
function holds(keys: Uint8Array, high: number, low: number): boolean {
  let found = false;
  eachKey(keys, (otherHigh, otherLow) => {
    if (otherHigh === high && otherLow === low) found = true;
  });
  return found;
}

/** A count of the service that the scan has not reached. */
interface Shortfall {
  unit: 'records' | 'pages';
  /** Distinct records, or pages, that the scan has read. */
  seen: number;
  /** Where the service says how many there are; the path is null if the profile names it (`page.total`). */
  signal: { path: string | null; count: number };
}

/** Pages in a row without a new record before a scan counts as a loop; more if more pages had brought one. */
const MAX_STALE_PAGES = 20;

/**
 * Pagination state of one scan: counts distinct records against the totals of the service, and detects records that moved
 * between pages while they were read. A record that is listed twice has moved, or has pushed others on; a changed total
 * says that records were created or deleted.
 */
export class WalkLedger {
  readonly #keys = new KeySet();
  readonly #pages: MetPage[] = [];
  /** True if pages are cut by number, so that what moves shifts them. */
  #isCutByNumber: boolean;
  /** True if several states of one record are listed, so that the service counts each of them. */
  readonly #hasStates: boolean;
  readonly #isFiltered: boolean;
  #leastTotal: number | null;
  #lastTotal: number | null = null;
  /** The latest counts at places that the profile does not name, by their path. */
  readonly #undeclaredTotals = new Map<string, number>();
  #undeclaredPages: Shortfall['signal'] | null = null;
  #pagesRead = 0;
  /** Hash of all keys so far, in the order of the pages. */
  readonly #digest = createHash('sha1');
  /** True if two consecutive pages reported the same total, so that it counts the listing, not the page. */
  #hasSteadyTotal = false;
  /** False if the scan was resumed without the keys of the pages before. */
  readonly #isCounted: boolean;
  #staleRun = 0;
  #productive = 0;
  #received = 0;
  #unkeyed = 0;
  #entered = 0;
  /** Index of the first page from which on a record may have been missed. */
  #slippedFrom: number | null = null;
  #unwatched = false;

  /**
   * `hasStates`: several listed records may share a key. `isFiltered`: only
   * changes are listed.
   */
  constructor(
    isCutByNumber: boolean,
    { pages, isWhole, leastTotal }: WalkBefore,
    { hasStates = false, isFiltered = false } = {},
  ) {
    // Pages before an interruption that turned out to have no numbers have no position either.
    this.#isCutByNumber = isCutByNumber && pages.every(({ position }) => position !== '');
    this.#hasStates = hasStates;
    this.#isFiltered = isFiltered;
    this.#leastTotal = leastTotal;
    this.#isCounted = isWhole;
    for (const page of pages) {
      // A page that was read again is stored twice.
      const isAgain = page.position !== '' && this.last?.position === page.position;
      this.#admitKeys(page, Infinity);
      if (isAgain) continue;
      this.#unkeyed += page.unkeyed;
      this.#pagesRead += 1;
      this.#received += sizeOf(page);
    }
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
    return this.#isCounted ? this.#received : null;
  }

  /** Distinct records so far, as far as their keys tell; null if the scan was resumed without them. */
  get met(): number | null {
    if (!this.#isCounted) return null;
    return this.#hasStates ? this.#received : this.#keys.size + this.#unkeyed;
  }

  /** Distinct records with those of one more page; null if `met` is. */
  metWith(keys: Uint8Array, received: number): number | null {
    const { met } = this;
    const unkeyed = received - keys.length / KEY_FINGERPRINT_BYTES;
    const fresh = new KeySet();
    eachKey(keys, (high, low) => !this.#keys.has(high, low) && fresh.add(high, low));
    return met === null ? null : met + (this.#hasStates ? received : fresh.size + unkeyed);
  }

  /** True if so many pages in a row brought no new record that the walk goes in circles. */
  get isLoop(): boolean {
    return this.#staleRun >= Math.max(MAX_STALE_PAGES, this.#productive);
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
    this.#noteUndeclared(page.signals);
    const known = this.#keys.size;
    eachKey(page.keys, (high, low) => this.#keys.add(high, low));
    const last = this.#pages.at(-1);
    if (last !== undefined) last.keys = Buffer.from(page.keys);
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
    this.#noteUndeclared(entry.signals);
    this.#pagesRead += 1;
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
    return again > 0;
  }

  #sharedBy({ keys }: MetPage): number {
    return this.last === null ? 0 : lastKnown(keys, this.last.keys) + 1;
  }

  /** The doubts against the walk, now that it has ended, the gravest first. */
  doubts(): Doubt[] {
    const shortfall = this.#shortfall();
    // As many distinct records as the total, but on fewer places: some were deleted since, and others are unread.
    const hasSlipped = this.#slippedFrom !== null || (shortfall === null && this.hasMetAll && this.#endsBeforeTotal);
    // Some record was on more than one page, so that another one may be on none.
    const hasRepeats = !this.#hasStates && this.#received > this.#keys.size + this.#unkeyed;
    const doubts: Doubt[] = [];
    if (hasSlipped) doubts.push(slipped);
    else if (this.#entered > 0) doubts.push(entered);
    if (shortfall?.unit === 'records') doubts.push(fewer(shortfall, hasRepeats));
    else if (shortfall !== null) doubts.push(fewerPages(shortfall));
    if (this.#unwatched) doubts.push(unwatched);
    return doubts;
  }

  /** How many records are missing to the total; null if none are known to be. */
  missing(): MissingRecords | null {
    const short = this.#shortfall();
    if (short === null || short.unit === 'pages') return null;
    const isGrowth = short.signal.path === null && short.seen >= (this.#leastTotal ?? Infinity);
    return { count: short.signal.count - short.seen, isGrowth };
  }

  /** The count of the service that exceeds most what the scan has read; null if all are reached. */
  #shortfall(): Shortfall | null {
    const { met } = this;
    if (met === null) return null;
    const declared = this.#lastTotal ?? this.#leastTotal;
    if (declared !== null && met < declared)
      return { unit: 'records', seen: met, signal: { path: null, count: declared } };
    // Beside a declared total of the changes, an undeclared one may well be that of the whole listing.
    if (this.#isFiltered && declared !== null) return null;
    const totals = [...this.#undeclaredTotals].map(([path, count]) => ({ path, count }));
    const largest = totals.toSorted((a, b) => b.count - a.count)[0];
    if (largest !== undefined && met < largest.count) return { unit: 'records', seen: met, signal: largest };
    const pages = this.#undeclaredPages;
    // A total that is reached outweighs a number of pages, which may be of other pages.
    if (declared !== null || largest?.count === met || pages === null || this.#pagesRead >= pages.count) return null;
    return { unit: 'pages', seen: this.#pagesRead, signal: pages };
  }

  /** Hash of all keys in the order of the pages: equal for two scans that saw the same. */
  prints(): string {
    if (!this.#isCutByNumber) return this.#digest.copy().digest('hex');
    const digest = createHash('sha1');
    // A page that was read again counts as it was then.
    for (const { keys } of this.#pages) digest.update(keys);
    return digest.digest('hex');
  }

  /** How many of the keys are met for the first time. */
  newAmong(keys: Uint8Array): number {
    let count = 0;
    eachKey(keys, (high, low) => (count += this.#keys.has(high, low) ? 0 : 1));
    return count;
  }

  /** True if a record with this key's fingerprint was met. */
  has(key: Uint8Array): boolean {
    return hasKey(this.#keys, key);
  }

  #noteTotal(total: number | null): void {
    if (total === null) return;
    this.#leastTotal = Math.min(this.#leastTotal ?? total, total);
    this.#lastTotal = total;
  }

  #noteUndeclared({ totals, pages }: UndeclaredSignals): void {
    for (const { path, count } of totals) this.#undeclaredTotals.set(path, count);
    this.#undeclaredPages = pages[0] ?? this.#undeclaredPages;
  }

  /** Returns with how many of the last records of the page before the page begins. */
  #admitKeys({ position, keys, unkeyed }: MetPage, overlap: number): number {
    let isNew = false;
    const again = this.#isCutByNumber ? pushedOn(this.last?.keys ?? new Uint8Array(), keys) : 0;
    eachKey(keys, (high, low, index) => {
      if (this.#keys.add(high, low)) isNew = true;
      else if (this.#isCutByNumber && index >= again && overlap !== Infinity) this.#slipped(high, low);
    });
    this.#digest.update(keys);
    if (isNew) this.#productive += 1;
    if (keys.length > 0) this.#staleRun = isNew ? 0 : this.#staleRun + 1;
    if (this.#isCutByNumber) this.#pages.push({ position, keys: Buffer.from(keys), unkeyed });
    return again;
  }

  /** A known record that was not merely pushed on has moved, so others may have moved the other way unseen. */
  #slipped(high: number, low: number): void {
    const first = this.#pages.findIndex(({ keys }) => holds(keys, high, low));
    if (first !== -1) this.#slippedFrom = Math.min(this.#slippedFrom ?? Infinity, first);
  }
}

const UNSTABLE_SORT =
  'usually the sort of the listing is not unique: add the id to it in query, such as sort=updated_at,id; else run it again when less is changed';
const ACCEPT_MOVEMENT = `${UNSTABLE_SORT}; accept: [end] accepts it, but no row is marked deleted after such a scan`;

const slipped: Doubt = {
  code: 'slipped',
  message: 'records moved between the pages while they were read, so one may have slipped past unread',
  hint: ACCEPT_MOVEMENT,
};

const entered: Doubt = {
  code: 'entered',
  message: 'records came onto pages that had been read already, and pushed others on',
  hint: ACCEPT_MOVEMENT,
};

const unwatched: Doubt = {
  code: 'unwatched',
  message: 'the listing is cut by page numbers and tells no total, so records that moved between pages would not show',
  hint: 'name where the service tells the total (page.total), or use offset pages, which show it by themselves',
};

function fewer({ seen, signal: { path, count } }: Shortfall, hasRepeats: boolean): Doubt {
  const ignore = path === null ? 'set page.total: null in the profile' : `add ${path} to page.ignored_totals`;
  return {
    code: 'fewer',
    message: `the scan saw ${seen} distinct records, but the service reports a total of ${count}${path === null ? '' : ` at ${path}`}`,
    hint: hasRepeats
      ? UNSTABLE_SORT
      : `compare page in the profile with an answer of the service; if the total counts more than is listed, ${ignore}`,
  };
}

function fewerPages({ seen, signal: { path, count } }: Shortfall): Doubt {
  return {
    code: 'fewer',
    message: `the scan read ${seen} ${seen === 1 ? 'page' : 'pages'}, but the service reports ${count} at ${path}`,
    hint: `compare page in the profile with an answer of the service; if ${path} counts other pages, set page.pages: null`,
  };
}
