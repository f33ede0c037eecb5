// Reads the pages of one scan, reads some again if the listing moved meanwhile, and finds out which page is next.
import { declaredEnd } from '../config/profile/page-style.ts';
import type { ApiAnswer } from '../http/client.ts';
import { KEY_FINGERPRINT_BYTES } from '../rows/records/record-key.ts';
import { lastKnown, sameKeys } from './guards/key-set.ts';
import type { PageAges } from './guards/page-ages.ts';
import type { AddedPage, PaginationState } from './guards/pagination-state.ts';
import {
  isRepeated,
  type ListingParts,
  MIN_OVERLAPPING_PAGE,
  type PastEndSign,
  stepAfter,
  stepFromSelfLink,
  type VerifiedEnd,
  verifyEnd,
  verifyPastEnd,
} from './guards/verify-end.ts';
import { isSamePosition, type PagePosition, sentTexts } from './page-styles/page-position.ts';
import { type IncompleteReason, pageError, type PageFault, type ScanEnd, type ScannedPage } from './page.ts';
import type { PagePrefetch } from './requests/prefetch-pages.ts';
import { isExpired, PastEnd, readPage, type ReadPage } from './requests/read-page.ts';

interface ReaderParts extends ListingParts {
  prefetch: PagePrefetch;
  state: PaginationState;
  ages: PageAges;
  signal: AbortSignal | undefined;
  /** Records on the largest page that named a next one, in earlier scans; 0 if none is known. */
  fullPageSize: number;
}

/** A page before its next step is known. */
interface UnsteppedPage extends ReadPage {
  /** Records that it shares with the page before by request; Infinity if any number is fine. */
  overlap: number;
}

interface SteppedPage extends UnsteppedPage, VerifiedEnd {
  next: PagePosition | null;
}

/** A page that is shorter than it says may have been truncated: it is requested this often. */
const MAX_SHORT_PAGE_ATTEMPTS = 3;
/** Two neighbouring pages are read again this often until the listing is stable between them. */
const MAX_REREADS = 5;
const NO_KEYS = new Uint8Array();

/**
 * Reads the pages of one scan and determines what follows each. If the listing moved between two pages, the first one is
 * returned again, with what had slipped from the second onto it. Throws as `scanPages` does.
 */
export class PageReader {
  readonly #parts: ReaderParts;
  /** Records on the largest page that named a next one, or was verified to be the last by a smaller one. */
  #fullPageSize: number;
  #last: UnsteppedPage | null = null;
  #past: PastEndSign = 'refused';
  #received = 0;
  /** Offset of the next page relative to the latest one, in records. */
  step = 0;

  constructor(parts: ReaderParts) {
    this.#parts = parts;
    this.#fullPageSize = parts.fullPageSize;
  }

  /**
   * Returns the request for a position. Pages that may begin anywhere begin a record early: if that is the last record
   * of the page before, no record has moved over the boundary between them.
   */
  requestFor(position: PagePosition): PagePosition {
    return this.#overlappingRequest(position) ?? position;
  }

  /**
   * For a scan that is resumed at `start`: reads the last stored page again if that shows that the listing has not moved
   * by more than a page. Throws `SyncError` (`cursor_expired`) if it has: then the scan has to start again.
   */
  async verifyStart(start: PagePosition): Promise<ScannedPage[]> {
    const { state } = this.#parts;
    if (!state.detectsMoves || state.last === null || this.#overlappingRequest(start) !== null) return [];
    const again = await this.#readAgain(state.last.position);
    if (lastKnown(again.keys, state.last.keys) === -1) throw pageError(POSITION_LOST, start);
    return [this.#replaceLast(again, state.last.position, start)];
  }

  /** Reads the page at a position; `before` are pages that had to be read again first. */
  async at(position: PagePosition): Promise<{ before: ScannedPage[]; current: ScannedPage }> {
    const { prefetch, state, ages, resource } = this.#parts;
    const taken = await this.#read(position);
    const { read, before } =
      taken === null ? await this.#verifyLastPage(position) : await this.#readAligned(taken, position);
    const stepped = read === null ? await this.#pastEnd() : await this.#findNext(read);
    const isShared = lastKnown(stepped.keys, state.last?.keys ?? NO_KEYS) === 0;
    const again = await this.#readAgainBefore(stepped, position);
    const isUnchanged = again !== null && again.length === 0;
    const mayHaveMoved = stepped.records.length > 0 || this.#received >= resource.page.size || again !== null;
    const isBoundary = !isUnchanged && mayHaveMoved;
    this.#received = stepped.records.length;
    const isPushed = state.add({ ...toStateEntry(stepped, position), overlap: stepped.overlap, isBoundary });
    ages.admit(stepped.answer, isBoundary && state.detectsMoves && stepped.overlap === 0);
    if (isPushed && stepped.overlap === 0) await prefetch.drop();
    return { before: [...before, ...(again ?? [])], current: this.#toPage(stepped, position, isShared) };
  }

  /** Ends the scan with this page: that it has not seen all records is no fault then. */
  cutShort(page: ScannedPage): ScannedPage {
    if (page.next === null) return page;
    const end = this.#endOf({ proof: 'signal', fault: null });
    return {
      ...page,
      next: null,
      end: { ...end, incompleteReasons: end.incompleteReasons.filter(({ code }) => code !== 'fewer') },
    };
  }

  /** Returns the request that begins a record early; null if pages do not overlap. */
  #overlappingRequest(position: PagePosition): PagePosition | null {
    const { style, state } = this.#parts;
    const before = state.last?.keys.length ?? 0;
    if (style.positions === null || before < MIN_OVERLAPPING_PAGE * KEY_FINGERPRINT_BYTES) return null;
    return style.positions.earlier(position, 1);
  }

  /** Reads the next page, prefetched or not; null if it is past the last one: refused, or the same page again. */
  async #read(position: PagePosition): Promise<UnsteppedPage | null> {
    const { state, resource } = this.#parts;
    const read = await this.#take(position);
    if (read === null) return null;
    const before = this.#last?.keys ?? state.last?.keys ?? null;
    if (before !== null && declaredEnd(resource.page).repeated_page && isRepeated(read, before)) {
      this.#past = 'repeated';
      return null;
    }
    return isSamePosition(read.request, position) ? { ...read, overlap: 0 } : this.#checkOverlap(position, read);
  }

  /** Null if the service refuses the page after a total that is reached, or after a page that was short. */
  async #take(position: PagePosition): Promise<ReadPage | null> {
    const { signal, prefetch, style, state, acceptsEnd } = this.#parts;
    signal?.throwIfAborted();
    try {
      const answer = await prefetch.take(position);
      return await this.#readWhole(answer, answer.request);
    } catch (error) {
      const isPast = error instanceof PastEnd && (this.#last !== null || state.last !== null);
      const isAfterShort = (this.#last?.records.length ?? Infinity) < this.#fullPageSize;
      const mayBePast = state.hasReachedTotal || isAfterShort || acceptsEnd;
      if (!isPast && !(isExpired(error) && style.positions !== null && mayBePast)) throw error;
      this.#past = isPast ? 'status' : 'refused';
      return null;
    }
  }

  async #readWhole(answer: ApiAnswer, position: PagePosition): Promise<ReadPage> {
    const { resource, requestPage } = this.#parts;
    let read = readPage(answer, position, resource);
    for (let attempt = 1; 'code' in read; attempt++) {
      if (read.code !== 'page_too_short' || attempt >= MAX_SHORT_PAGE_ATTEMPTS) throw pageError(read, position);
      read = readPage(await requestPage(position), position, resource);
    }
    return read;
  }

  /** Requests a page now, without prefetching. */
  async #readNow(position: PagePosition): Promise<ReadPage> {
    return this.#readWhole(await this.#parts.requestPage(position), position);
  }

  /** Reads a page again, as it is now. */
  #readAgain(position: PagePosition): Promise<ReadPage> {
    return this.#parts.ages.readAgain(() => this.#readNow(position));
  }

  /** Requests a page now; null if it is past the last one by now. */
  async #readNowUnlessPast(position: PagePosition): Promise<ReadPage | null> {
    try {
      return await this.#readNow(position);
    } catch (error) {
      const isPast = error instanceof PastEnd;
      if (!isPast && !(isExpired(error) && this.#parts.state.hasReachedTotal)) throw error;
      this.#past = isPast ? 'status' : 'refused';
      return null;
    }
  }

  /**
   * Checks that a page begins with the last record of the page before. If the listing has moved in between, it is read
   * from a page earlier on; if it holds nothing else, only a service that keeps page sizes has reached its end.
   */
  async #checkOverlap(position: PagePosition, read: ReadPage): Promise<UnsteppedPage> {
    const { state, style, resource } = this.#parts;
    const before = state.last?.keys ?? NO_KEYS;
    const found = lastKnown(read.keys, before);
    const isEnd = this.#fullPageSize >= resource.page.size || read.total !== null;
    if (found !== -1 && (found < read.records.length - 1 || isEnd)) return { ...read, overlap: 1 };
    const step = before.length / KEY_FINGERPRINT_BYTES - 1;
    const other = found === -1 ? style.positions?.earlier(position, step) : position;
    const again = await this.#readNowUnlessPast(other ?? position);
    const isThere = again !== null && (found === -1 ? lastKnown(again.keys, before) !== -1 : again.records.length > 0);
    if (isThere) return { ...again, overlap: Infinity };
    if (found !== -1) return { ...read, overlap: 1 };
    state.noteLargeMove();
    return { ...read, overlap: 0 };
  }

  /** A refused page shows no total. If the last page reported more, it is read again: the rest may be on it by now. */
  async #verifyLastPage(position: PagePosition): Promise<{ read: null; before: ScannedPage[] }> {
    const { state } = this.#parts;
    const { last } = state;
    if (last === null || !state.hasReachedTotal || state.isComplete) return { read: null, before: [] };
    const again = await this.#readAgain(last.position);
    if (lastKnown(again.keys, last.keys) === -1) state.noteLargeMove();
    return { read: null, before: [this.#replaceLast(again, last.position, position)] };
  }

  /**
   * If the total says that records were created or deleted since the page before, reads both pages again until the total
   * or both pages are stable. The first page is always read first: in the other order a record that is pushed on between
   * the requests would be on neither.
   */
  async #readAligned(
    first: UnsteppedPage,
    position: PagePosition,
  ): Promise<{ read: UnsteppedPage | null; before: ScannedPage[] }> {
    const { prefetch, state } = this.#parts;
    const before: ScannedPage[] = [];
    let read = first;
    // Overlapping pages show by themselves what moved.
    while (state.detectsMoves && state.last !== null && read.overlap === 0 && state.hasChangedTotal(read.total)) {
      const { position: place, keys } = state.last;
      const again = await this.#readAgain(place);
      const mayBeStale = state.mayBeStale(again.total);
      if (lastKnown(again.keys, keys) === -1 || before.length === MAX_REREADS) {
        state.noteLargeMove();
        break;
      }
      before.push(this.#replaceLast(again, place, position));
      const isSame = sameKeys(again.keys, keys);
      if (isSame && again.total === read.total) break;
      // Prefetched pages are older than these two.
      await prefetch.drop();
      const former = read;
      const latest = await this.#readNowUnlessPast(position);
      if (latest === null) return { read: null, before: [...before, ...(await this.#verifyLastPage(position)).before] };
      read = { ...latest, overlap: 0 };
      if (isSame && sameKeys(read.keys, former.keys) && !(mayBeStale && read.total === former.total)) break;
    }
    return { read, before };
  }

  /**
   * Reads the page before an empty one again if it may have been full: a record that moved onto it would not show
   * otherwise. Empty if it is unchanged; null if it was shorter than others, or something else shows what moved.
   */
  async #readAgainBefore(stepped: SteppedPage, position: PagePosition): Promise<ScannedPage[] | null> {
    const { state } = this.#parts;
    const { last } = state;
    const isShown = stepped.total !== null || stepped.overlap !== 0 || state.hasUncheckedBoundary;
    if (!state.detectsMoves || last === null || isShown || stepped.records.length > 0) return null;
    if (this.#received === 0 || this.#received < this.#fullPageSize) return null;
    const again = await this.#readAgain(last.position);
    return sameKeys(again.keys, last.keys) ? [] : [this.#replaceLast(again, last.position, position)];
  }

  async #findNext(read: UnsteppedPage): Promise<SteppedPage> {
    const { state, resource } = this.#parts;
    const received = read.records.length;
    const known = read.overlap === 0 ? -1 : lastKnown(read.keys, state.last?.keys ?? NO_KEYS);
    const seen = state.received === null ? null : state.received + received - known - 1;
    const before = this.#last;
    this.#last = read;
    // A page that begins a record early is empty if it holds nothing else.
    const isEmpty = received === 0 || (read.overlap === 1 && received === 1 && known === 0);
    const named = stepAfter(this.#parts, read, { isEmpty, seen, fullPageSize: this.#fullPageSize });
    if ('code' in named) throw pageError(named, read.request);
    const step = stepFromSelfLink(named, { page: resource.page, read, before, fullPageSize: this.#fullPageSize });
    if ('next' in step) {
      this.#fullPageSize = Math.max(this.#fullPageSize, received);
      return { ...read, next: step.next, proof: null, fault: null };
    }
    const distinct = state.distinctWith(read.keys, received);
    const { fullPageSize, ...end } = await verifyEnd(this.#parts, {
      read,
      step,
      distinct,
      fullPageSize: this.#fullPageSize,
    });
    this.#fullPageSize = fullPageSize;
    return { ...read, next: null, ...end };
  }

  /** Returns an empty page in place of one that is past the last one. */
  async #pastEnd(): Promise<SteppedPage> {
    const { state } = this.#parts;
    const last = this.#last ?? (state.last && (await this.#readNow(state.last.position)));
    if (last === null) throw new Error('a listing cannot end before its first page');
    const { isComplete, received, lastTotal: total } = state;
    const end = await verifyPastEnd(this.#parts, {
      sign: this.#past,
      last,
      received,
      fullPageSize: this.#fullPageSize,
      isComplete,
    });
    return { ...last, total, records: [], keys: Buffer.alloc(0), next: null, ...end, overlap: 0 };
  }

  #replaceLast(read: ReadPage, position: PagePosition, next: PagePosition): ScannedPage {
    const entry = { ...toStateEntry(read, position), overlap: Infinity, isBoundary: false };
    const again = read.records.length - this.#parts.state.replaceLast(entry);
    return {
      ...toPlainPage(read, position),
      again,
      next,
      fullPageSize: this.#fullPageSize,
      isNumbered: true,
      end: null,
    };
  }

  /** `isShared`: the page begins with a record of the page before. */
  #toPage(stepped: SteppedPage, position: PagePosition, isShared: boolean): ScannedPage {
    const { state, style } = this.#parts;
    const { next, records, keys } = stepped;
    this.step = records.length - (next !== null && this.#overlappingRequest(next) !== null ? 1 : 0);
    const isNumbered = next === null || style.positions !== null || isNumericStep(position, next, records.length);
    if (state.detectsMoves && !isNumbered) state.ignoreMoves();
    const isCut = isShared && stepped.overlap === 1 && keys.length === records.length * KEY_FINGERPRINT_BYTES;
    const known = { again: 0, fullPageSize: this.#fullPageSize, isNumbered: state.detectsMoves };
    const page = { ...toPlainPage(stepped, position), records: isCut ? records.slice(1) : records, ...known };
    if (next === null) return { ...page, next, end: this.#endOf(stepped), answer: stepped.answer };
    if (!state.isLoop) return { ...page, next, end: null };
    if (!state.isComplete) throw pageError(LOOP, position);
    return { ...page, next: null, end: this.#endOf({ ...stepped, proof: 'total' }) };
  }

  #endOf({ proof, fault }: VerifiedEnd): ScanEnd {
    const { state, ages } = this.#parts;
    const unproved: IncompleteReason[] =
      fault === null ? [] : [{ code: 'unproved', message: fault.message, hint: fault.hint }];
    return {
      proof,
      records: state.distinct,
      incompleteReasons: [...unproved, ...state.incompleteReasons(), ...ages.incompleteReasons()],
      keysHash: state.hash(),
      hasSeen: (key) => state.has(key),
      shortfall: state.missing(),
      cacheWaitMs: ages.cacheWaitMs,
    };
  }
}

function toStateEntry(
  { keys, total, records, signals }: ReadPage,
  position: PagePosition,
): Omit<AddedPage, 'overlap' | 'isBoundary'> {
  const unkeyed = records.length - keys.length / KEY_FINGERPRINT_BYTES;
  return { position, keys, total, unkeyed, signals };
}

function toPlainPage({ records, keys, total, answer }: ReadPage, position: PagePosition) {
  const { requestedAt, serverDate } = answer;
  return { position, records, keys, total, requestedAt, serverDate };
}

const POSITION_LOST: PageFault = {
  code: 'cursor_expired',
  message:
    'The listing has changed while the scan was interrupted: nothing of the page before this one is there any more',
  hint: 'Start this resource again from the beginning.',
};

const LOOP: PageFault = {
  code: 'guard_loop',
  message: 'Page after page brings records that were on pages before, and none that is new',
  hint: 'The service goes in circles: report it there, or name where it tells the total (page.total in the profile).',
};

const BASE64 = /^[\w+/-]{2,}={0,2}$/;
const PRINTABLE = /^[\x20-\x7e]+$/;
const INTEGERS = /\d+/g;

/**
 * True if the next position is this one with a number increased by one or by the records of a page: links and cursors,
 * also in Base64, by which a service numbers its pages after all. The first of them may add the parameter.
 */
export function isNumericStep(position: PagePosition, next: PagePosition, received: number): boolean {
  const before = sentTexts(position);
  const changed = [...sentTexts(next)].filter(([name, value]) => before.get(name) !== value);
  const [first, ...others] = changed;
  if (first === undefined || others.length > 0) return false;
  const [name, value] = first;
  return isIncreased(decodeBase64(before.get(name) ?? ''), decodeBase64(value), received);
}

function decodeBase64(value: string): string {
  if (/^\d+$/.test(value) || !BASE64.test(value)) return value;
  const text = Buffer.from(value, 'base64').toString('latin1');
  return PRINTABLE.test(text) ? text : value;
}

/** True if the texts differ in one number alone, by a step of pages; a first request without a number is 0 or 1. */
function isIncreased(before: string, after: string, received: number): boolean {
  const numbers = after.match(INTEGERS) ?? [];
  if (before === '') {
    const [only, ...others] = numbers;
    return only !== undefined && others.length === 0 && [1, 2, received, received - 1].includes(Number(only));
  }
  const former = before.match(INTEGERS) ?? [];
  if (before.replaceAll(INTEGERS, '#') !== after.replaceAll(INTEGERS, '#')) return false;
  const steps = numbers.map((number, at) => Number(number) - Number(former[at])).filter((step) => step !== 0);
  return steps.length === 1 && (steps[0] === 1 || steps[0] === received);
}
