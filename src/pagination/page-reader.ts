// Reads the pages of one scan one after the other: finds out what follows each page, and reads pages again if records moved
// meanwhile. Example: page 2 reports a larger total than page 1, so a record was created. If it is on page 1, which was read
// before, the scan has missed it. So both pages are read again.
import { declaredEnd } from '../config/profile/page-style.ts';
import type { ApiAnswer } from '../http/client.ts';
import { KEY_FINGERPRINT_BYTES } from '../rows/records/record-key.ts';
import { lastKnown, sameKeys } from './guards/key-set.ts';
import type { PageAges } from './guards/page-ages.ts';
import { NO_KEYS } from './guards/pagination-state.ts';
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
  ages: PageAges;
  signal: AbortSignal | undefined;
}

interface OverlappingPage extends ReadPage {
  /** How many records of the page before were requested again; Infinity if any number may be repeated. */
  overlap: number;
}

/** A page with what follows: the next page, or the end of the listing. */
type SteppedPage = OverlappingPage & ({ next: PagePosition } | { next: null; end: VerifiedEnd });

/** How often a page is requested that is shorter than it says, and so may be truncated. */
const MAX_SHORT_PAGE_ATTEMPTS = 3;
/** How often two neighbouring pages are read again, until no record moves between them. */
const MAX_REREADS = 5;

/** Reads the pages of one scan. Throws as `scanPages` does. */
export class PageReader {
  readonly #parts: ReaderParts;
  /** Why the page after the last one counts as past the end. */
  #pastEndSign: PastEndSign = 'refused';
  /** How many records after the latest page the next one begins. */
  step = 0;

  constructor(parts: ReaderParts) {
    this.#parts = parts;
  }

  /**
   * Reads the page at a position. Returns it as the last one, after the pages that had to be read again because records
   * moved onto them.
   */
  async read(position: PagePosition): Promise<ScannedPage[]> {
    const { prefetch, state, ages, resource } = this.#parts;
    const receivedBefore = state.lastRead?.records.length ?? 0;
    const rereads: ScannedPage[] = [];
    const read = await this.#readAligned(position, rereads);
    const page = read === null ? await this.#emptyPageAtEnd() : await this.#findNext(read);
    const beginsWithLast = lastKnown(page.keys, state.last?.keys ?? NO_KEYS) === 0;
    const change = await this.#readFullPageAgain(page, receivedBefore, position, rereads);
    const mayHaveMoved = page.records.length > 0 || receivedBefore >= resource.page.size || change !== null;
    const isUnchecked = change !== 'unchanged' && mayHaveMoved;
    const hasMoved = state.add(page, position, page.overlap, isUnchecked);
    ages.admit(page.answer, isUnchecked && state.isCutByNumber && page.overlap === 0);
    // Prefetched pages were requested before the move.
    if (hasMoved && page.overlap === 0) await prefetch.drop();
    return [...rereads, this.#toScannedPage(page, position, beginsWithLast)];
  }

  /**
   * Called before a scan is resumed at `start`. Reads the last stored page again, unless the next page overlaps with it. If
   * none of its records is there any more, throws `SyncError` (`cursor_expired`), and the scan has to start again.
   */
  async verifyStart(start: PagePosition): Promise<ScannedPage[]> {
    const { state } = this.#parts;
    if (!state.isCutByNumber || state.last === null || this.#overlappingRequest(start) !== null) return [];
    const again = await this.#readAgain(state.last.position);
    if (lastKnown(again.keys, state.last.keys) === -1) throw pageError(POSITION_LOST, start);
    return [this.#replaceLast(again, state.last.position, start)];
  }

  /** Ends the scan with this page because the caller needs no more: that records are missing is not reported then. */
  cutShort(page: ScannedPage): ScannedPage {
    if (page.next === null) return page;
    const end = this.#toScanEnd('signal');
    const incompleteReasons = end.incompleteReasons.filter(({ code }) => code !== 'fewer');
    return { ...page, next: null, end: { ...end, incompleteReasons } };
  }

  /**
   * Returns the request for a position. If pages may begin at any record, it begins one record early: if that is the last
   * record of the page before, no record has moved between the two pages.
   */
  requestFor(position: PagePosition): PagePosition {
    return this.#overlappingRequest(position) ?? position;
  }

  /** Returns the request that begins a record early; null if pages do not overlap. */
  #overlappingRequest(position: PagePosition): PagePosition | null {
    const { style, state } = this.#parts;
    const before = state.last?.keys.length ?? 0;
    if (style.positions === null || before < MIN_OVERLAPPING_PAGE * KEY_FINGERPRINT_BYTES) return null;
    return style.positions.earlier(position, 1);
  }

  /**
   * Reads a page; null if it is past the last one. If the total says that records were created or deleted since the page
   * before, reads both again until the total or both pages are stable. The page before is read first: in the other order,
   * a record that moves to the later page between the requests would be on neither.
   */
  async #readAligned(position: PagePosition, rereads: ScannedPage[]): Promise<OverlappingPage | null> {
    const { prefetch, state } = this.#parts;
    let read = await this.#readNext(position);
    // Overlapping pages need no total to show that records moved.
    while (read?.overlap === 0 && state.last !== null && state.isCutByNumber && state.hasChangedTotal(read.total)) {
      const { position: lastPosition, keys } = state.last;
      const again = await this.#readAgain(lastPosition);
      const mayBeStale = state.mayBeStale(again.total);
      if (lastKnown(again.keys, keys) === -1 || rereads.length === MAX_REREADS) {
        state.hasSlipped = true;
        return read;
      }
      rereads.push(this.#replaceLast(again, lastPosition, position));
      const isSame = sameKeys(again.keys, keys);
      if (isSame && again.total === read.total) return read;
      // Prefetched pages are older than these two.
      await prefetch.drop();
      const former = read;
      const latest = await this.#unlessPastEnd(() => this.#readNow(position), state.hasReachedTotal);
      read = latest === null ? null : { ...latest, overlap: 0 };
      const isSameNext = read !== null && sameKeys(read.keys, former.keys);
      if (isSame && isSameNext && !(mayBeStale && read?.total === former.total)) return read;
    }
    if (read === null) await this.#readLastAgain(position, rereads);
    return read;
  }

  /** After a refused page, which shows no total: reads the last page again if the total counts more, which may be on it now. */
  async #readLastAgain(position: PagePosition, rereads: ScannedPage[]): Promise<void> {
    const { state } = this.#parts;
    const { last } = state;
    if (last === null || !state.hasReachedTotal || state.isComplete) return;
    const again = await this.#readAgain(last.position);
    if (lastKnown(again.keys, last.keys) === -1) state.hasSlipped = true;
    rereads.push(this.#replaceLast(again, last.position, position));
  }

  /**
   * Reads the page before an empty one again if it was full: a record may have moved onto it after it was read. Returns
   * null if it was shorter than others, or if something else shows whether records moved.
   */
  async #readFullPageAgain(
    page: SteppedPage,
    receivedBefore: number,
    position: PagePosition,
    rereads: ScannedPage[],
  ): Promise<'unchanged' | 'changed' | null> {
    const { state } = this.#parts;
    const { last } = state;
    // A total or an overlap shows whether records moved, or the scan is unverified already.
    const isNeedless = page.total !== null || page.overlap !== 0 || state.hasUncheckedBoundary;
    if (!state.isCutByNumber || last === null || isNeedless || page.records.length > 0) return null;
    if (receivedBefore === 0 || receivedBefore < state.fullPageSize) return null;
    const again = await this.#readAgain(last.position);
    if (sameKeys(again.keys, last.keys)) return 'unchanged';
    rereads.push(this.#replaceLast(again, last.position, position));
    return 'changed';
  }

  /** Reads the next page, prefetched or not; null if it is past the last one: refused, or the same page again. */
  async #readNext(position: PagePosition): Promise<OverlappingPage | null> {
    const { signal, prefetch, style, state, resource, acceptsEnd } = this.#parts;
    signal?.throwIfAborted();
    const isAfterShort = (state.lastRead?.records.length ?? Infinity) < state.fullPageSize;
    const mayBePast = style.positions !== null && (state.hasReachedTotal || isAfterShort || acceptsEnd);
    const read = await this.#unlessPastEnd(async () => {
      const answer = await prefetch.take(position);
      return this.#toPage(answer, answer.request);
    }, mayBePast);
    if (read === null) return null;
    const before = (state.lastRead ?? state.last)?.keys;
    if (before !== undefined && declaredEnd(resource.page).repeated_page && isRepeated(read, before)) {
      this.#pastEndSign = 'repeated';
      return null;
    }
    return isSamePosition(read.request, position) ? { ...read, overlap: 0 } : this.#checkOverlap(position, read);
  }

  /** Reads a page; null if the profile declares the response as past the end, or the service refuses it and it `mayBePast`. */
  async #unlessPastEnd(read: () => Promise<ReadPage>, mayBePast: boolean): Promise<ReadPage | null> {
    const { state } = this.#parts;
    try {
      return await read();
    } catch (error) {
      const isDeclared = error instanceof PastEnd && (state.lastRead ?? state.last) !== null;
      if (!isDeclared && !(isExpired(error) && mayBePast)) throw error;
      this.#pastEndSign = isDeclared ? 'status' : 'refused';
      return null;
    }
  }

  async #toPage(answer: ApiAnswer, position: PagePosition): Promise<ReadPage> {
    const { resource, requestPage } = this.#parts;
    let read = readPage(answer, position, resource);
    for (let attempt = 1; 'code' in read; attempt++) {
      if (read.mayBeCutOff !== true || attempt >= MAX_SHORT_PAGE_ATTEMPTS) throw pageError(read, position);
      read = readPage(await requestPage(position), position, resource);
    }
    return read;
  }

  /** Requests a page now, without prefetching. */
  async #readNow(position: PagePosition): Promise<ReadPage> {
    return this.#toPage(await this.#parts.requestPage(position), position);
  }

  /** Reads a page again, as it is now. */
  #readAgain(position: PagePosition): Promise<ReadPage> {
    return this.#parts.ages.readAgain(() => this.#readNow(position));
  }

  /**
   * Checks that a page begins with the last record of the page before. If not, records have moved: then the page is read
   * from a page earlier. If it has only that record, the listing has ended, unless the service may have returned less than
   * was requested: then the page is read without the overlap.
   */
  async #checkOverlap(position: PagePosition, read: ReadPage): Promise<OverlappingPage> {
    const { state, style, resource } = this.#parts;
    const before = state.last?.keys ?? NO_KEYS;
    const found = lastKnown(read.keys, before);
    const isEnd = state.fullPageSize >= resource.page.size || read.total !== null;
    if (found !== -1 && (found < read.records.length - 1 || isEnd)) return { ...read, overlap: 1 };
    const step = before.length / KEY_FINGERPRINT_BYTES - 1;
    const other = (found === -1 ? style.positions?.earlier(position, step) : null) ?? position;
    const again = await this.#unlessPastEnd(() => this.#readNow(other), state.hasReachedTotal);
    const isUsable = again !== null && (found === -1 ? lastKnown(again.keys, before) !== -1 : again.records.length > 0);
    if (isUsable) return { ...again, overlap: Infinity };
    if (found !== -1) return { ...read, overlap: 1 };
    state.hasSlipped = true;
    return { ...read, overlap: 0 };
  }

  async #findNext(read: OverlappingPage): Promise<SteppedPage> {
    const { state } = this.#parts;
    const received = read.records.length;
    const known = read.overlap === 0 ? -1 : lastKnown(read.keys, state.last?.keys ?? NO_KEYS);
    const seen = state.received === null ? null : state.received + received - known - 1;
    // A page is empty if it has only the record that it shares with the page before.
    const isEmpty = received === 0 || (read.overlap === 1 && received === 1 && known === 0);
    const namedStep = stepAfter(this.#parts, read, { isEmpty, seen, fullPageSize: state.fullPageSize });
    if ('code' in namedStep) throw pageError(namedStep, read.request);
    const step = stepFromSelfLink(this.#parts, read, namedStep);
    state.lastRead = read;
    if (!('next' in step)) return { ...read, next: null, end: await verifyEnd(this.#parts, read, step) };
    state.fullPageSize = Math.max(state.fullPageSize, received);
    return { ...read, next: step.next };
  }

  /** Returns an empty page in place of one that is past the last one. */
  async #emptyPageAtEnd(): Promise<SteppedPage> {
    const { state } = this.#parts;
    const last = state.lastRead ?? (state.last && (await this.#readNow(state.last.position)));
    if (last === null) throw new Error('a listing cannot end before its first page');
    const { lastTotal: total } = state;
    const end = await verifyPastEnd(this.#parts, last, this.#pastEndSign);
    return { ...last, total, records: [], keys: Buffer.alloc(0), next: null, end, overlap: 0 };
  }

  #replaceLast(read: ReadPage, position: PagePosition, next: PagePosition): ScannedPage {
    const { state } = this.#parts;
    const repeatedRecords = read.records.length - state.replaceLast(read);
    const { fullPageSize } = state;
    return { ...toPlainPage(read, position), repeatedRecords, next, fullPageSize, isNumbered: true, end: null };
  }

  /** `beginsWithLast`: the page begins with the last record of the page before, which is removed. */
  #toScannedPage(page: SteppedPage, position: PagePosition, beginsWithLast: boolean): ScannedPage {
    const { state, style } = this.#parts;
    const { next, records, keys } = page;
    this.step = records.length - (next !== null && this.#overlappingRequest(next) !== null ? 1 : 0);
    const isNumbered = next === null || style.positions !== null || isNumericStep(position, next, records.length);
    if (state.isCutByNumber && !isNumbered) state.ignoreMoves();
    const isRemoved = beginsWithLast && page.overlap === 1 && keys.length === records.length * KEY_FINGERPRINT_BYTES;
    const scanned = {
      ...toPlainPage(page, position),
      records: isRemoved ? records.slice(1) : records,
      repeatedRecords: 0,
      fullPageSize: state.fullPageSize,
      isNumbered: state.isCutByNumber,
    };
    if (page.next === null) return { ...scanned, next: null, end: this.#toScanEnd(page.end), answer: page.answer };
    if (!state.isLoop) return { ...scanned, next, end: null };
    if (!state.isComplete) throw pageError(LOOP, position);
    return { ...scanned, next: null, end: this.#toScanEnd('total') };
  }

  #toScanEnd(end: VerifiedEnd): ScanEnd {
    const { state, ages } = this.#parts;
    const isVerified = typeof end === 'string';
    const unproved: IncompleteReason[] = isVerified ? [] : [{ code: 'unproved', message: end.message, hint: end.hint }];
    return {
      proof: isVerified ? end : null,
      records: state.distinct,
      incompleteReasons: [...unproved, ...state.incompleteReasons(), ...ages.incompleteReasons()],
      keysHash: state.hash(),
      hasSeen: (key) => state.has(key),
      shortfall: state.missing(),
      cacheWaitMs: ages.cacheWaitMs,
    };
  }
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
 * True if the next position is this one with a number increased by one, or by the number of records: then a service numbers
 * its pages although it names them by links or cursors, perhaps in Base64. The first page may have no number.
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

/** True if the texts differ only in one number, by one or by the records of a page. A text without a number counts as 0 or 1. */
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
