// What a scan knows of the pages that it has read, and why it may be incomplete (`PaginationState`) or never end
// (`LoopDetector`).
//
// A listing changes while it is read. Example: pages of 10 are cut by number. After page 1 was read, one of its
// records is deleted, so record 11 moves to page 1 and page 2 begins with record 12. The scan has not seen record 11,
// although every page was read: only the total, or a page that was read again, shows it.
import { createHash } from 'node:crypto';
import type { SourceRecord } from '../../model/json.ts';
import { KEY_FINGERPRINT_BYTES } from '../../rows/records/record-key.ts';
import { type PagePosition, isSamePosition, positionText } from '../page-styles/page-position.ts';
import type { IncompleteReason, MissingRecords, PageFault, ScannedPage } from '../page.ts';
import type { ReadPage } from '../requests/read-page.ts';
import { countPushed, eachKey, hasKey, KeySet, lastKnown, TextSet } from './key-set.ts';

/** A page that was stored before the scan was resumed. */
export interface EarlierPage {
  /** Null if it was not cut by number: then its position shows nothing. */
  position: PagePosition | null;
  keys: Uint8Array;
  /** Records without a usable key. */
  unkeyed: number;
}

/** A page that was read before in this scan. */
interface VisitedPage {
  position: PagePosition;
  keys: Uint8Array;
}

/** The part of a scan that was stored before it was resumed; nothing for a new one. */
export interface EarlierPages {
  pages: readonly EarlierPage[];
  /** True if these are all pages that the scan has read. */
  hasAllPages: boolean;
  leastTotal: number | null;
}

/** A count of the service that the scan has not reached. */
interface Shortfall {
  unit: 'records' | 'pages';
  /** Distinct records, or pages, that the scan has read. */
  seen: number;
  count: number;
  /** Where the response has the count; null if the profile names it (`page.total`). */
  path: string | null;
}

/** Pages in a row without a new record before a scan counts as a loop; more if more pages had brought one. */
const MAX_STALE_PAGES = 20;
export const NO_KEYS = new Uint8Array();

/**
 * The state of one scan. It compares the number of distinct records with the totals of the service, and detects records
 * that moved between pages while they were read. A record that is listed twice has moved, or was pushed to the next page
 * by a new record before it. A changed total shows that records were created or deleted.
 */
export class PaginationState {
  /** True if pages are cut by number or offset, so that a deleted record shifts all pages after it. */
  isCutByNumber: boolean;
  /** The latest page; null before the first one, also after a resume. */
  lastRead: ReadPage | null = null;
  /** Records on the largest page that named a next one, in this scan or an earlier one; 0 if none did. */
  fullPageSize: number;
  /** The latest total of the service; null if it reported none. */
  lastTotal: number | null = null;
  /** True if a record may have moved from an unread page to one that was read before, unseen. */
  hasSlipped = false;
  /** True if records may have moved unnoticed between two pages. */
  hasUncheckedBoundary = false;
  /** True if records moved from later pages to pages that were read before, and pushed others on. */
  #hasEntered = false;
  /** The smallest total that the service has reported; null if it reported none. */
  #leastTotal: number | null;
  /** True if two consecutive pages reported the same total, so that it counts the listing, not the page. */
  #hasSteadyTotal = false;
  /** The latest totals at paths that the profile does not name, by path. */
  readonly #undeclaredTotals = new Map<string, number>();
  #undeclaredPages: { path: string; count: number } | null = null;
  readonly #keys = new KeySet();
  /** The pages so far, if they are cut by number; otherwise none is retained. */
  readonly #pages: VisitedPage[] = [];
  /** Hash of all keys so far, in the order of the pages. */
  readonly #digest = createHash('sha1');
  /** True if several states of one record are listed, and the service counts each of them. */
  readonly #hasStates: boolean;
  /** True if only changes are listed. */
  readonly #isFiltered: boolean;
  /** False if the scan was resumed without the keys of the pages before. */
  readonly #isCounted: boolean;
  #pagesRead = 0;
  /** Records on all pages, repeated ones included. */
  #received = 0;
  /** Records without a usable key. */
  #unkeyed = 0;
  /** Pages in a row without a new record, and pages with one. */
  #stalePages = 0;
  #productivePages = 0;

  constructor(
    { pages, hasAllPages, leastTotal }: EarlierPages,
    options: { isCutByNumber: boolean; fullPageSize: number; hasStates: boolean; isFiltered: boolean },
  ) {
    this.isCutByNumber = options.isCutByNumber && pages.every(({ position }) => position !== null);
    this.fullPageSize = options.fullPageSize;
    this.#hasStates = options.hasStates;
    this.#isFiltered = options.isFiltered;
    this.#leastTotal = leastTotal;
    this.#isCounted = hasAllPages;
    for (const { position, keys, unkeyed } of pages) {
      // A page that was read again is stored twice.
      const isAgain = position !== null && this.last !== null && isSamePosition(this.last.position, position);
      this.#addKeys(position, keys, Infinity);
      if (isAgain) continue;
      this.#unkeyed += unkeyed;
      this.#pagesRead += 1;
      this.#received += keys.length / KEY_FINGERPRINT_BYTES + unkeyed;
    }
  }

  /** The latest page, as it was read last; null if pages are not cut by number. */
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
  distinctWith(page: ReadPage): number | null {
    const { distinct } = this;
    if (distinct === null) return null;
    return distinct + (this.#hasStates ? page.records.length : this.countNew(page.keys) + countUnkeyed(page));
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

  /** True if the scan saw as many records as a total, some of which may have been deleted since. */
  get hasReachedTotal(): boolean {
    return this.#leastTotal !== null && (this.distinct ?? -1) >= this.#leastTotal;
  }

  /** True if the scan reached a total, and its pages reach as far as the latest one. */
  get isComplete(): boolean {
    return this.hasReachedTotal && !this.#endsBeforeTotal;
  }

  /** True if the numbered pages had fewer records in all, repeated ones included, than the latest total. */
  get #endsBeforeTotal(): boolean {
    return this.isCutByNumber && this.lastTotal !== null && (this.received ?? Infinity) < this.lastTotal;
  }

  /** True if this total shows that records were created or deleted since the latest page. */
  hasChangedTotal(total: number | null): boolean {
    return this.lastTotal !== null && total !== null && total !== this.lastTotal;
  }

  /**
   * True if a page that was read again may come from a lagging replica, because its total differs from that of the next
   * page. A total that changes with each page is no sign of it.
   */
  mayBeStale(total: number | null): boolean {
    return this.#hasSteadyTotal || this.hasChangedTotal(total);
  }

  /** Called if the pages turn out to have no numbers: then a record that moves does not shift them. */
  ignoreMoves(): void {
    this.#pages.length = 0;
    this.isCutByNumber = this.hasUncheckedBoundary = this.#hasEntered = this.hasSlipped = false;
  }

  /**
   * Adds a page. `overlap`: how many records of the page before were requested again with it; Infinity if any number is
   * fine. `isBoundary`: a record may have moved unnoticed between the two pages. Returns true if the page begins with
   * records of the page before that were not requested again: new records have pushed them on.
   */
  add(page: ReadPage, position: PagePosition, overlap: number, isBoundary: boolean): boolean {
    const totalBefore = this.lastTotal;
    const isFirst = this.#pages.length === 0;
    if (totalBefore !== null && page.total === totalBefore) this.#hasSteadyTotal = true;
    this.#noteCounts(page);
    this.#pagesRead += 1;
    this.#unkeyed += countUnkeyed(page);
    const shared = overlap === Infinity ? lastKnown(page.keys, this.last?.keys ?? NO_KEYS) + 1 : overlap;
    this.#received += page.records.length - shared;
    const pushed = this.#addKeys(position, page.keys, overlap) - overlap;
    if (!this.isCutByNumber) return false;
    const created = totalBefore === null || page.total === null ? 0 : Math.max(0, page.total - totalBefore);
    // A created record pushes one record on. If more were pushed, others came from later pages.
    if (pushed > created) this.#hasEntered = true;
    if (!isFirst && isBoundary && page.total === null && overlap === 0) this.hasUncheckedBoundary = true;
    return pushed > 0;
  }

  /** Replaces the latest page, which was read again. Returns how many of its keys are new. */
  replaceLast(page: ReadPage): number {
    this.#noteCounts(page);
    const known = this.#keys.size;
    eachKey(page.keys, (high, low) => this.#keys.add(high, low));
    if (this.last !== null) this.last.keys = new Uint8Array(page.keys);
    return this.#keys.size - known;
  }

  #noteCounts({ total, signals }: ReadPage): void {
    if (total !== null) {
      this.#leastTotal = Math.min(this.#leastTotal ?? total, total);
      this.lastTotal = total;
    }
    for (const { path, count } of signals.totals) this.#undeclaredTotals.set(path, count);
    this.#undeclaredPages = signals.pages[0] ?? this.#undeclaredPages;
  }

  /** Returns how many records at the end of the page before are at the beginning of this one. */
  #addKeys(position: PagePosition | null, keys: Uint8Array, overlap: number): number {
    let hasNew = false;
    const pushed = this.isCutByNumber ? countPushed(this.last?.keys ?? NO_KEYS, keys) : 0;
    eachKey(keys, (high, low, index) => {
      if (this.#keys.add(high, low)) hasNew = true;
      // A known record that was not pushed on has moved to this page, so another one may have moved back, unseen.
      else if (this.isCutByNumber && index >= pushed && overlap !== Infinity) {
        this.hasSlipped ||= this.#pages.some((page) => includesKey(page.keys, high, low));
      }
    });
    this.#digest.update(keys);
    if (hasNew) this.#productivePages += 1;
    if (keys.length > 0) this.#stalePages = hasNew ? 0 : this.#stalePages + 1;
    // A copy by `Buffer.from` would keep a slab of Node's buffer pool alive, which is 16 times as large.
    if (this.isCutByNumber && position !== null) this.#pages.push({ position, keys: new Uint8Array(keys) });
    return pushed;
  }

  /** Returns the reasons why the scan may be incomplete at its end, the gravest first. */
  incompleteReasons(): IncompleteReason[] {
    const shortfall = this.#shortfall();
    // The scan saw enough distinct records, but its pages end before the total: some records were deleted meanwhile, and
    // as many are unread.
    const hasSlipped = this.hasSlipped || (shortfall === null && this.hasReachedTotal && this.#endsBeforeTotal);
    // If a record was on more than one page, another one may be on none.
    const hasRepeats = !this.#hasStates && this.#received > this.#keys.size + this.#unkeyed;
    const reasons: IncompleteReason[] = [];
    if (hasSlipped) reasons.push(SLIPPED);
    else if (this.#hasEntered) reasons.push(ENTERED);
    if (shortfall !== null) reasons.push(shortfallReason(shortfall, hasRepeats));
    if (this.hasUncheckedBoundary) reasons.push(UNWATCHED);
    return reasons;
  }

  /** Counts the records by which the scan falls short of the total; null if none are known to be missing. */
  missing(): MissingRecords | null {
    const short = this.#shortfall();
    if (short === null || short.unit === 'pages') return null;
    const isGrowth = short.path === null && short.seen >= (this.#leastTotal ?? Infinity);
    return { count: short.count - short.seen, isGrowth };
  }

  /** Returns the count of the service that the scan falls short of; null if all are reached. */
  #shortfall(): Shortfall | null {
    const seen = this.distinct;
    if (seen === null) return null;
    const declared = this.lastTotal ?? this.#leastTotal;
    if (declared !== null && seen < declared) return { unit: 'records', seen, count: declared, path: null };
    // If the declared total counts the changes, an undeclared one may count the whole listing.
    if (this.#isFiltered && declared !== null) return null;
    const [largest] = [...this.#undeclaredTotals].toSorted(([, a], [, b]) => b - a);
    if (largest !== undefined && seen < largest[1]) {
      return { unit: 'records', seen, count: largest[1], path: largest[0] };
    }
    const pages = this.#undeclaredPages;
    // If a total is reached, the number of pages is ignored: it may be for another page size.
    if (declared !== null || largest?.[1] === seen || pages === null || this.#pagesRead >= pages.count) return null;
    return { unit: 'pages', seen: this.#pagesRead, ...pages };
  }

  /** Returns the hash of all keys in the order of the pages: equal for two scans that saw the same. */
  hash(): string {
    if (!this.isCutByNumber) return this.#digest.copy().digest('hex');
    const digest = createHash('sha1');
    // A page that was read again counts in its latest form.
    for (const { keys } of this.#pages) digest.update(keys);
    return digest.digest('hex');
  }
}

function countUnkeyed({ records, keys }: ReadPage): number {
  return records.length - keys.length / KEY_FINGERPRINT_BYTES;
}

function includesKey(keys: Uint8Array, high: number, low: number): boolean {
  let isFound = false;
  eachKey(keys, (otherHigh, otherLow) => (isFound ||= otherHigh === high && otherLow === low));
  return isFound;
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
  message:
    'the listing is cut by page numbers and reports no total, so records that moved between pages would not show',
  hint: 'set page.total to where the service reports the total, or use offset pages, which show it by themselves',
};

function shortfallReason({ unit, seen, count, path }: Shortfall, hasRepeats: boolean): IncompleteReason {
  const compare = 'compare page in the profile with an answer of the service';
  if (unit === 'pages') {
    return {
      code: 'fewer',
      message: `the scan read ${seen} ${seen === 1 ? 'page' : 'pages'}, but the service reports ${count} at ${path}`,
      hint: `${compare}; if ${path} counts other pages, set page.pages: null`,
    };
  }
  const ignore = path === null ? 'set page.total: null in the profile' : `add ${path} to page.ignored_totals`;
  return {
    code: 'fewer',
    message: `the scan saw ${seen} distinct records, but the service reports a total of ${count}${path === null ? '' : ` at ${path}`}`,
    hint: hasRepeats ? UNSTABLE_SORT : `${compare}; if the total counts more than is listed, ${ignore}`,
  };
}

/** A listing may have this many empty pages in a row that still name a next one. */
const MAX_EMPTY_PAGES = 10;

/**
 * In a numbered listing, records that are created at its head push the others on, so a page may repeat the one before.
 * But if the second of two larger pages repeats the first, the service does not know the page parameter.
 */
const MIN_FULL_PAGE = 10;
const MAX_PUSHED_PAGES = 3;

const PARAMETER_HINT =
  'The service may not know the page parameter, or take page 0 for page 1 (page.first): compare page in the profile with its documentation.';
const CYCLE_HINT =
  'The service goes in circles and the listing is not complete: report it there; check page in the profile.';

/** Detects a listing that never ends, because the service returns earlier pages again. */
export class LoopDetector {
  readonly #positions = new TextSet();
  readonly #contents = new TextSet();
  readonly #isNumbered: boolean;
  #emptyPages = 0;
  #repeatedPages = 0;
  #pages = 0;

  /** `isNumbered`: pages are cut by number. `start`: where the scan begins. */
  constructor(isNumbered: boolean, start: PagePosition) {
    this.#isNumbered = isNumbered;
    this.#positions.add(positionText(start));
  }

  /** Adds a page. Returns why the scan must stop after it; null if it may continue. */
  findFault({ position, next, records }: ScannedPage): PageFault | null {
    const hasNext = next !== null;
    if (hasNext && !this.#positions.add(positionText(next))) {
      return isSamePosition(next, position) ? NAMES_ITSELF : NAMES_EARLIER_PAGE;
    }
    this.#emptyPages = records.length === 0 ? this.#emptyPages + 1 : 0;
    if (hasNext && this.#emptyPages > MAX_EMPTY_PAGES) {
      return {
        code: 'guard_loop',
        message: `${this.#emptyPages} pages in a row were empty, and each promised a next one`,
        hint: 'Run again; if it stays, check page in the profile (a total that counts more than is listed promises too much).',
      };
    }
    return records.length === 0 ? null : this.#findRepeated(records);
  }

  #findRepeated(records: readonly SourceRecord[]): PageFault | null {
    this.#pages += 1;
    this.#repeatedPages = this.#contents.add(pageOutline(records)) ? 0 : this.#repeatedPages + 1;
    const isSecond = this.#pages === 2;
    const mayBePushed = this.#isNumbered && (!isSecond || records.length < MIN_FULL_PAGE);
    if (this.#repeatedPages <= (mayBePushed ? MAX_PUSHED_PAGES : 0)) return null;
    return {
      code: 'guard_loop',
      message: `The page carries the same ${records.length} records as a page before it`,
      hint: isSecond || this.#pages === this.#repeatedPages + 1 ? PARAMETER_HINT : CYCLE_HINT,
    };
  }
}

const NAMES_ITSELF: PageFault = {
  code: 'guard_loop',
  message: 'The page names itself as the next page',
  hint:
    'A feed that has come to its end often gives its last position again. If the service says the end in another field, ' +
    'name that in the profile (page.has_more); else check page there: the listing is not taken for complete.',
};

const NAMES_EARLIER_PAGE: PageFault = {
  code: 'guard_loop',
  message: 'The next page is one that was read before',
  hint: CYCLE_HINT,
};

/** Identifies a page without reading all of it: by its first and last record, and the length of each. */
function pageOutline(records: readonly SourceRecord[]): string {
  const lengths = records.map(({ bytes }) => bytes.length).join(',');
  return `${records.at(0)?.bytes.toString('latin1')}\n${records.at(-1)?.bytes.toString('latin1')}\n${lengths}`;
}
