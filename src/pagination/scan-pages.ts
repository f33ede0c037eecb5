// Scans one listing page by page: `for await (const page of scanPages(...))`. This is the entry point of pagination.
import type { TemplateValues } from '../config/profile/basic-fields.ts';
import type { ResourceProfile } from '../config/profile/profile.ts';
import type { Clock } from '../model/clock.ts';
import { countRecords } from '../rows/records/select-records.ts';
import { PageAges } from './guards/page-ages.ts';
import { type EarlierPages, LoopDetector, PaginationState } from './guards/pagination-state.ts';
import { type ListingParts, type Numbering, verifyNumbering } from './guards/verify-end.ts';
import { PageReader } from './page-reader.ts';
import { firstPosition, type ListingTarget, type RequestTemplates } from './page-styles/listing-request.ts';
import { isSamePosition, type PagePosition, type PlaceValues } from './page-styles/page-position.ts';
import { openPageStyle } from './page-styles/page-styles.ts';
import { type Page, pageError, type ScannedPage } from './page.ts';
import { PagePrefetch } from './requests/prefetch-pages.ts';
import { pageRequester, type ReadableResource, type RequestOptions } from './requests/read-page.ts';

export interface ScanOptions extends RequestOptions {
  resource: RequestTemplates & ReadableResource;
  listing: ListingTarget;
  /** Of the variables in the resource's templates; those without a value leave their entries out. */
  values?: TemplateValues;
  /** Values by request place besides the profile's, such as the incremental filter. */
  extraQuery?: PlaceValues;
  /** Where to resume; null or absent: the beginning. */
  from?: PagePosition | null | undefined;
  /** Pages of this scan that were committed before the resume. */
  pagesBefore?: number;
  /** The content of those pages; absent if it is not known. */
  before?: EarlierPages | undefined;
  /** Records on the largest page that named a next one, in earlier scans; 0 if absent. */
  fullPageSize?: number | undefined;
  /** True if the end of a listing is accepted although nothing shows it (`accept: [end]` of the profile). */
  acceptsEnd?: boolean;
  /** True if several states of one record may be listed, each of which counts. */
  acceptsStates?: boolean;
  /** True if only changes are listed, whose number a total at an undeclared place need not be. */
  isFiltered?: boolean;
  /** Max requests in flight, one if each page names the next one; 0 disables prefetching. */
  runAhead: number;
  /**
   * Called at the start of each listing. Returns a function that is called with each page, and returns true if the scan
   * may end there, because the caller has what it was looking for.
   */
  isEnough?: () => (page: ScannedPage) => boolean;
  /** Only this many records of the listing are prefetched, because the caller will stop the scan after them. */
  maxRecords?: number;
  /** If given, the numbers of the pages are verified at the end of the scan, unless they are known to be right. */
  numbering?: Numbering;
  /** True if the caller keeps pages and releases the memory of each; else it is released when the next page is requested. */
  keepsPages?: boolean;
  /** Milliseconds that a page out of a cache may be old; absent: any. */
  maxPageAgeMs?: number | undefined;
  /**
   * End of the scan that this one is compared with, in local epoch milliseconds; absent or null if this is the first.
   */
  formerEndedAt?: number | null;
  clock: Clock;
}

/**
 * Reads a resource's pages in the order of the listing. The last page has `next: null` and says what shows the end and
 * what speaks against it (`end`); a scan that ends without one threw. Pages are prefetched while the consumer works, see
 * `PagePrefetch`. If a numbered listing moved meanwhile, a page may be returned a second time, with what had slipped.
 *
 * Throws `SyncError` (recovery `stop`) if the service's pages cannot be accepted: `bad_page`, `pagination_invalid`,
 * `guard_loop`; `cursor_expired` if the scan has to start again; and what the client throws.
 */
export async function* scanPages(options: ScanOptions): AsyncGenerator<Page, void, undefined> {
  const { start, isResumed, listing, loops, prefetch, reader } = openScan(options);
  const isEnough = options.isEnough?.() ?? (() => false);
  let number = options.pagesBefore ?? 0;
  // A page that was read again retains no memory.
  const readAgain = (page: ScannedPage): Page => ({ ...page, number: (number += 1), release: () => undefined });
  let position: PagePosition | null = start;
  try {
    if (isResumed) for (const page of await reader.verifyStart(position)) yield readAgain(page);
    while (position !== null) {
      const pages = await reader.read(position);
      const current = pages.pop();
      if (current === undefined) throw new Error('a position without a page');
      for (const page of pages) yield readAgain(page);
      const page = isEnough(current) ? reader.cutShort(current) : current;
      const fault = loops.findFault(page);
      if (fault !== null) throw pageError(fault, position);
      const end = page.end && (await verifyNumbering(page, page.end, listing, options.numbering));
      const release = prefetch.takeRelease();
      const total = Math.min(likelyTotal(page.total, listing.state.distinct), options.maxRecords ?? Infinity);
      await prefetch.prefetch({ next: page.next, received: reader.step, total: total === Infinity ? null : total });
      yield { ...page, end, number: (number += 1), release };
      if (options.keepsPages !== true) release();
      prefetch.consumed();
      position = page.next;
    }
  } finally {
    await prefetch.close();
  }
}

/** Infinite if unknown. A total that the scan has passed says nothing about what is still to come. */
function likelyTotal(total: number | null, seen: number | null): number {
  return total === null || (seen !== null && total < seen) ? Infinity : total;
}

/** Prepares a scan; sends nothing. */
function openScan(options: ScanOptions) {
  const { resource, values = {}, extraQuery = {}, from, signal, clock, acceptsEnd = false } = options;
  const { baseUrl } = options.listing;
  const style = openPageStyle(resource.page);
  const parts = { target: options.listing, templates: resource, values };
  const first = firstPosition(parts, { ...extraQuery, ...style.first });
  const start = from ?? first;
  const isResumed = !isSamePosition(start, first);
  const requestPage = pageRequester(options, parts, first);
  const state = new PaginationState(options.before ?? { pages: [], hasAllPages: !isResumed, leastTotal: null }, {
    isCutByNumber: style.positions !== null || style.mayHideNumbers,
    // A scan that is resumed after its first page was led there by a page that named the next one.
    fullPageSize: options.fullPageSize ?? (isResumed ? resource.page.size : 0),
    hasStates: options.acceptsStates ?? false,
    isFiltered: options.isFiltered ?? false,
  });
  const listing: ListingParts = { resource, style, first, baseUrl, requestPage, acceptsEnd, state };
  // A page that begins with the last record of the one before holds one new record fewer.
  const overlap = style.positions === null || style.positions.earlier(first, 1) === null ? 0 : 1;
  const positions = isEndKnown(resource.page) ? style.positions : null;
  const prefetch = new PagePrefetch({
    get: async (position, how) => {
      const request = reader.requestFor(position);
      return { ...(await requestPage(request, how)), request };
    },
    countOf: (answer) => countRecords(answer.json, resource.records),
    positions,
    size: resource.page.size - overlap,
    maxRequests: positions === null ? Math.min(options.runAhead, 1) : options.runAhead,
  });
  const { maxPageAgeMs = Infinity, formerEndedAt = null } = options;
  const pause = (ms: number): Promise<void> => clock.sleep(ms, signal);
  const ages = new PageAges({ startedAt: clock.now(), formerEndedAt, maxAgeMs: maxPageAgeMs, pause });
  const reader = new PageReader({ ...listing, prefetch, ages, signal });
  const loops = new LoopDetector(style.positions !== null, start);
  return { start, isResumed, listing, loops, prefetch, reader };
}

/** False if each page names the next one and no total is reported: any guessed page may be past the end. */
function isEndKnown(page: ResourceProfile['page']): boolean {
  return page.style !== 'page' || page.next_page === null || typeof page.total === 'string';
}
