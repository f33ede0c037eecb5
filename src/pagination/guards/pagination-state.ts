// Tracks the pages of a scan to detect missing and moved records, and loops: distinct keys, totals, positions.
import { createHash } from 'node:crypto';
import type { SourceRecord } from '../../model/json.ts';
import { KEY_FINGERPRINT_BYTES } from '../../rows/records/record-key.ts';
import { type PagePosition, isSamePosition, positionText } from '../page-styles/page-position.ts';
import { type IncompleteReason, type MissingRecords, pageError, type ScannedPage } from '../page.ts';
import type { UndeclaredSignals } from '../requests/listing-signals.ts';
import { countPushed, eachKey, hasKey, KeySet, lastKnown, TextSet } from './key-set.ts';

/** A page that was stored before the scan was resumed. */
export interface EarlierPage {
  /** Null if it was not cut by number: then its position shows nothing. */
  position: PagePosition | null;
  keys: Uint8Array;
  /** Records without a usable key. */
  unkeyed: number;
}

/** A page as a scan remembers it. */
interface VisitedPage extends EarlierPage {
  position: PagePosition;
}

export interface AddedPage extends VisitedPage {
  total: number | null;
  /** Records that it shares with the page before by request; Infinity if any number is fine. */
  overlap: number;
  /** True if a record may have moved unnoticed between the page before and this one. */
  isBoundary: boolean;
  /** Counts of the whole listing at places that the profile does not name. */
  signals: UndeclaredSignals;
}

/** The part of a scan that was stored before it was resumed; nothing for a new one. */
export interface EarlierPages {
  pages: readonly EarlierPage[];
  /** True if these are all pages that the scan has read. */
  isWhole: boolean;
  leastTotal: number | null;
}

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
export class PaginationState {
  readonly #keys = new KeySet();
  readonly #pages: VisitedPage[] = [];
  /** True if pages are cut by number, so that records that move shift them. */
  #isCutByNumber: boolean;
  /** True if several states of one record are listed, and the service counts each of them. */
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
  /** Pages in a row without a new record, and pages with one. */
  #stalePages = 0;
  #productivePages = 0;
  #received = 0;
  #unkeyed = 0;
  #hasEntered = false;
  /** True if a record may have moved past the scan. */
  #hasSlipped = false;
  #hasUncheckedBoundary = false;

  /** `hasStates`: several listed records may share a key. `isFiltered`: only changes are listed. */
  constructor(
    isCutByNumber: boolean,
    { pages, isWhole, leastTotal }: EarlierPages,
    { hasStates = false, isFiltered = false } = {},
  ) {
    this.#isCutByNumber = isCutByNumber && pages.every(({ position }) => position !== null);
    this.#hasStates = hasStates;
    this.#isFiltered = isFiltered;
    this.#leastTotal = leastTotal;
    this.#isCounted = isWhole;
    for (const page of pages) {
      // A page that was read again is stored twice.
      const last = this.last?.position ?? null;
      const isAgain = page.position !== null && last !== null && isSamePosition(last, page.position);
      this.#addKeys(page, Infinity);
      if (isAgain) continue;
      this.#unkeyed += page.unkeyed;
      this.#pagesRead += 1;
      this.#received += countRecords(page);
    }
  }

  /** Called if the pages turn out to have no numbers: then moving records shift nothing. */
  ignoreMoves(): void {
    this.#isCutByNumber = false;
    this.#pages.length = 0;
    this.#hasUncheckedBoundary = false;
    this.#hasEntered = false;
    this.#hasSlipped = false;
  }

  get last(): VisitedPage | null {
    return this.#pages.at(-1) ?? null;
  }

  /** Records on all pages so far, repeated ones included; null if the scan was resumed without counts. */
  get received(): number | null {
    return this.#isCounted ? this.#received : null;
  }

  /** Distinct records so far; null if the scan was resumed without the keys of the pages before. */
  get distinct(): number | null {
    if (!this.#isCounted) return null;
    return this.#hasStates ? this.#received : this.#keys.size + this.#unkeyed;
  }

  /** Counts the distinct records with those of one more page; null if `distinct` is. */
  distinctWith(keys: Uint8Array, received: number): number | null {
    const { distinct } = this;
    if (distinct === null) return null;
    const unkeyed = received - keys.length / KEY_FINGERPRINT_BYTES;
    return distinct + (this.#hasStates ? received : this.countNew(keys) + unkeyed);
  }

  /** Counts the distinct keys that the scan has not seen. */
  countNew(keys: Uint8Array): number {
    const fresh = new KeySet(keys.length / KEY_FINGERPRINT_BYTES);
    eachKey(keys, (high, low) => !this.#keys.has(high, low) && fresh.add(high, low));
    return fresh.size;
  }

  /** True if the scan saw the record with this hash of its key. */
  has(key: Uint8Array): boolean {
    return hasKey(this.#keys, key);
  }

  /** True if too many pages in a row brought no new record: the listing is circular. */
  get isLoop(): boolean {
    return this.#stalePages >= Math.max(MAX_STALE_PAGES, this.#productivePages);
  }

  /** True if pages are cut by number, so that moving records have to be detected. */
  get detectsMoves(): boolean {
    return this.#isCutByNumber;
  }

  /** True if records may have moved unnoticed between two pages. */
  get hasUncheckedBoundary(): boolean {
    return this.#hasUncheckedBoundary;
  }

  /** The latest total of the service; null if it reported none. */
  get lastTotal(): number | null {
    return this.#lastTotal;
  }

  /** True if the scan saw as many records as a total, some of which may have been deleted since. */
  get hasReachedTotal(): boolean {
    return this.#leastTotal !== null && (this.distinct ?? -1) >= this.#leastTotal;
  }

  /** True if the scan reached a total, and its pages reach as far as the latest one. */
  get isComplete(): boolean {
    return this.hasReachedTotal && !this.#endsBeforeTotal;
  }

  /** True if pages by number cover fewer places than the latest total. */
  get #endsBeforeTotal(): boolean {
    return this.#isCutByNumber && this.#lastTotal !== null && (this.received ?? Infinity) < this.#lastTotal;
  }

  /** True if this total says that records were created or deleted since the latest page. */
  hasChangedTotal(total: number | null): boolean {
    return this.#lastTotal !== null && total !== null && total !== this.#lastTotal;
  }

  /**
   * True if a page that was read again may come from a lagging replica, because its total differs from that of the next
   * page. A total that changes with each page is no sign of it.
   */
  mayBeStale(total: number | null): boolean {
    return this.#hasSteadyTotal || this.hasChangedTotal(total);
  }

  /** Replaces the latest page, which was read again. Returns how many of its keys are new. */
  replaceLast(page: AddedPage): number {
    this.#noteCounts(page);
    const known = this.#keys.size;
    eachKey(page.keys, (high, low) => this.#keys.add(high, low));
    const last = this.#pages.at(-1);
    if (last !== undefined) last.keys = new Uint8Array(page.keys);
    return this.#keys.size - known;
  }

  /** Notes that the listing moved by more than a page: no record of the latest page was found again. */
  noteLargeMove(): void {
    this.#hasSlipped = true;
  }

  /** Adds a page. Returns true if it begins with records of the page before that were not requested again. */
  add(page: AddedPage): boolean {
    const totalBefore = this.#lastTotal;
    const isFirst = this.#pages.length === 0;
    if (totalBefore !== null && page.total === totalBefore) this.#hasSteadyTotal = true;
    this.#noteCounts(page);
    this.#pagesRead += 1;
    this.#unkeyed += page.unkeyed;
    const shared = page.overlap === Infinity ? lastKnown(page.keys, this.last?.keys ?? NO_KEYS) + 1 : page.overlap;
    this.#received += countRecords(page) - shared;
    const pushed = this.#addKeys(page, page.overlap) - page.overlap;
    const grown = totalBefore === null || page.total === null ? 0 : page.total - totalBefore;
    if (this.#isCutByNumber) {
      // As many records as were created at the head are pushed on; created records are not missed.
      if (pushed > Math.max(0, grown)) this.#hasEntered = true;
      if (!isFirst && page.isBoundary && page.total === null && page.overlap === 0) this.#hasUncheckedBoundary = true;
    }
    return pushed > 0;
  }

  /** Returns the reasons why the scan may be incomplete at its end, the gravest first. */
  incompleteReasons(): IncompleteReason[] {
    const shortfall = this.#shortfall();
    // Enough distinct records, but on fewer places than the total: some were deleted since, and others are unread.
    const hasSlipped = this.#hasSlipped || (shortfall === null && this.hasReachedTotal && this.#endsBeforeTotal);
    // If a record was on more than one page, another one may be on none.
    const hasRepeats = !this.#hasStates && this.#received > this.#keys.size + this.#unkeyed;
    const reasons: IncompleteReason[] = [];
    if (hasSlipped) reasons.push(SLIPPED);
    else if (this.#hasEntered) reasons.push(ENTERED);
    if (shortfall?.unit === 'records') reasons.push(fewerRecords(shortfall, hasRepeats));
    else if (shortfall !== null) reasons.push(fewerPages(shortfall));
    if (this.#hasUncheckedBoundary) reasons.push(UNWATCHED);
    return reasons;
  }

  /** Counts the records that are missing to the total; null if none are known to be. */
  missing(): MissingRecords | null {
    const short = this.#shortfall();
    if (short === null || short.unit === 'pages') return null;
    const isGrowth = short.signal.path === null && short.seen >= (this.#leastTotal ?? Infinity);
    return { count: short.signal.count - short.seen, isGrowth };
  }

  /** Returns the count of the service that exceeds the scan most; null if all are reached. */
  #shortfall(): Shortfall | null {
    const seen = this.distinct;
    if (seen === null) return null;
    const declared = this.#lastTotal ?? this.#leastTotal;
    if (declared !== null && seen < declared) return { unit: 'records', seen, signal: { path: null, count: declared } };
    // Next to a declared total of the changes, an undeclared one may be that of the whole listing.
    if (this.#isFiltered && declared !== null) return null;
    const totals = [...this.#undeclaredTotals].map(([path, count]) => ({ path, count }));
    const largest = totals.toSorted((a, b) => b.count - a.count)[0];
    if (largest !== undefined && seen < largest.count) return { unit: 'records', seen, signal: largest };
    const pages = this.#undeclaredPages;
    // A reached total outweighs a number of pages, which may be of another size.
    if (declared !== null || largest?.count === seen || pages === null || this.#pagesRead >= pages.count) return null;
    return { unit: 'pages', seen: this.#pagesRead, signal: pages };
  }

  /** Returns the hash of all keys in the order of the pages: equal for two scans that saw the same. */
  hash(): string {
    if (!this.#isCutByNumber) return this.#digest.copy().digest('hex');
    const digest = createHash('sha1');
    // A page that was read again counts in its latest form.
    for (const { keys } of this.#pages) digest.update(keys);
    return digest.digest('hex');
  }

  #noteCounts({ total, signals }: AddedPage): void {
    if (total !== null) {
      this.#leastTotal = Math.min(this.#leastTotal ?? total, total);
      this.#lastTotal = total;
    }
    for (const { path, count } of signals.totals) this.#undeclaredTotals.set(path, count);
    this.#undeclaredPages = signals.pages[0] ?? this.#undeclaredPages;
  }

  /** Returns with how many of the last records of the page before the page begins. */
  #addKeys({ position, keys, unkeyed }: EarlierPage, overlap: number): number {
    let hasNew = false;
    const pushed = this.#isCutByNumber ? countPushed(this.last?.keys ?? NO_KEYS, keys) : 0;
    eachKey(keys, (high, low, index) => {
      if (this.#keys.add(high, low)) hasNew = true;
      // A known record that was not merely pushed on has moved, so others may have moved the other way unnoticed.
      else if (this.#isCutByNumber && index >= pushed && overlap !== Infinity) {
        this.#hasSlipped ||= this.#pages.some((page) => includesKey(page.keys, high, low));
      }
    });
    this.#digest.update(keys);
    if (hasNew) this.#productivePages += 1;
    if (keys.length > 0) this.#stalePages = hasNew ? 0 : this.#stalePages + 1;
    // A copy by `Buffer.from` would keep a slab of Node's buffer pool alive, which is 16 times as large.
    if (this.#isCutByNumber && position !== null) this.#pages.push({ position, keys: new Uint8Array(keys), unkeyed });
    return pushed;
  }
}

const NO_KEYS = new Uint8Array();

function includesKey(keys: Uint8Array, high: number, low: number): boolean {
  let isFound = false;
  eachKey(keys, (otherHigh, otherLow) => (isFound ||= otherHigh === high && otherLow === low));
  return isFound;
}

function countRecords({ keys, unkeyed }: EarlierPage): number {
  return keys.length / KEY_FINGERPRINT_BYTES + unkeyed;
}

const UNSTABLE_SORT =
  'usually the sort of the listing is not unique: add the id to it in query, such as sort=updated_at,id; else run it again when less is changed';
const ACCEPT_MOVEMENT = `${UNSTABLE_SORT}; accept: [end] accepts it, but no row is marked deleted after such a scan`;

const SLIPPED: IncompleteReason = {
  code: 'slipped',
  message: 'records moved between the pages while they were read, so one may have slipped past unread',
  hint: ACCEPT_MOVEMENT,
};

const ENTERED: IncompleteReason = {
  code: 'entered',
  message: 'records came onto pages that had been read already, and pushed others on',
  hint: ACCEPT_MOVEMENT,
};

const UNWATCHED: IncompleteReason = {
  code: 'unwatched',
  message: 'the listing is cut by page numbers and tells no total, so records that moved between pages would not show',
  hint: 'name where the service tells the total (page.total), or use offset pages, which show it by themselves',
};

function fewerRecords({ seen, signal: { path, count } }: Shortfall, hasRepeats: boolean): IncompleteReason {
  const ignore = path === null ? 'set page.total: null in the profile' : `add ${path} to page.ignored_totals`;
  return {
    code: 'fewer',
    message: `the scan saw ${seen} distinct records, but the service reports a total of ${count}${path === null ? '' : ` at ${path}`}`,
    hint: hasRepeats
      ? UNSTABLE_SORT
      : `compare page in the profile with an answer of the service; if the total counts more than is listed, ${ignore}`,
  };
}

function fewerPages({ seen, signal: { path, count } }: Shortfall): IncompleteReason {
  return {
    code: 'fewer',
    message: `the scan read ${seen} ${seen === 1 ? 'page' : 'pages'}, but the service reports ${count} at ${path}`,
    hint: `compare page in the profile with an answer of the service; if ${path} counts other pages, set page.pages: null`,
  };
}

/** Empty pages in a row that may still promise a next one. */
const MAX_EMPTY_PAGES = 10;

/**
 * In a numbered listing, records that are created at its head push the others on, so a page may repeat the one before.
 * The second page of a service that does not know the page parameter is the first one, whatever its size.
 */
const MIN_FULL_PAGE = 10;
const MAX_PUSHED_PAGES = 3;

const REPEATED_HINT =
  'A feed that has come to its end often gives its last position again. If the service says the end in another field, ' +
  'name that in the profile (page.has_more); else check page there: the listing is not taken for complete.';
const PARAMETER_HINT =
  'The service may not know the page parameter, or take page 0 for page 1 (page.first): compare page in the profile with its documentation.';
const CYCLE_HINT =
  'The service goes in circles and the listing is not complete: report it there; check page in the profile.';

/** Detects a circular listing page by page. `check` throws the `SyncError` that ends the scan. */
export class LoopDetector {
  readonly #positions = new TextSet();
  readonly #contents = new TextSet();
  readonly #isNumbered: boolean;
  #emptyPages = 0;
  #repeatedPages = 0;
  #pages = 0;

  /** `isNumbered`: pages are cut by number, so a moving listing shifts them. `start`: where the scan begins. */
  constructor(isNumbered: boolean, start: PagePosition) {
    this.#isNumbered = isNumbered;
    this.#positions.add(positionText(start));
  }

  check(page: ScannedPage): void {
    this.#checkNext(page);
    this.#checkEmptyPages(page);
    this.#checkContents(page);
  }

  #checkNext({ position, next }: ScannedPage): void {
    if (next === null || this.#positions.add(positionText(next))) return;
    if (isSamePosition(next, position)) {
      const message = 'The page names itself as the next page';
      throw pageError({ code: 'guard_repeated_cursor', message, hint: REPEATED_HINT }, position);
    }
    const message = 'The next page is one that was read before';
    throw pageError({ code: 'guard_cycle', message, hint: CYCLE_HINT }, position);
  }

  #checkEmptyPages({ position, next, records }: ScannedPage): void {
    this.#emptyPages = records.length === 0 ? this.#emptyPages + 1 : 0;
    if (next === null || this.#emptyPages <= MAX_EMPTY_PAGES) return;
    const message = `${this.#emptyPages} pages in a row were empty, and each promised a next one`;
    const hint =
      'Run again; if it stays, check page in the profile (a total that counts more than is listed promises too much).';
    throw pageError({ code: 'guard_empty_pages', message, hint }, position);
  }

  #checkContents({ position, records }: ScannedPage): void {
    if (records.length === 0) return;
    this.#pages += 1;
    this.#repeatedPages = this.#contents.add(pageOutline(records)) ? 0 : this.#repeatedPages + 1;
    const isSecond = this.#pages === 2;
    const mayBePushed = this.#isNumbered && (!isSecond || records.length < MIN_FULL_PAGE);
    if (this.#repeatedPages <= (mayBePushed ? MAX_PUSHED_PAGES : 0)) return;
    const message = `The page carries the same ${records.length} records as a page before it`;
    const hint = isSecond || this.#pages === this.#repeatedPages + 1 ? PARAMETER_HINT : CYCLE_HINT;
    throw pageError({ code: 'guard_page_repeated', message, hint }, position);
  }
}

/** Identifies a page without reading all of it: by its first and last record, and the length of each. */
function pageOutline(records: readonly SourceRecord[]): string {
  const lengths = records.map(({ bytes }) => bytes.length).join(',');
  return `${records.at(0)?.bytes.toString('latin1')}\n${records.at(-1)?.bytes.toString('latin1')}\n${lengths}`;
}
