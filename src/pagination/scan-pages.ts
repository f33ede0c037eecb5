// Scans one listing page by page: `for await (const page of scanPages(...))`. This is the entry point of pagination. It
// prefetches pages, reads pages again if the listing moved meanwhile, and verifies that the end is really the end.
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
  /** Values of the variables in the resource's templates; an entry whose variable has no value is omitted. */
  values?: TemplateValues;
  /** Further values by request location, such as the time of the incremental filter. */
  extraQuery?: PlaceValues;
  /** Where to resume; null or absent to begin at the first page. */
  from?: PagePosition | null | undefined;
  /** Number of pages that this scan committed before it was resumed. */
  pagesBefore?: number;
  /** The keys of those pages; absent if they are not known. */
  before?: EarlierPages | undefined;
  /** Records on the largest page that named a next one, in earlier scans; 0 if absent. */
  fullPageSize?: number | undefined;
  /** True if the end of a listing is accepted although nothing proves it (`accept: [end]` of the profile). */
  acceptsEnd?: boolean;
  /** True if several states of one record may be listed, and the service counts each of them. */
  acceptsStates?: boolean;
  /** True if only changes are listed: a total that the profile does not name may count the whole listing. */
  isFiltered?: boolean;
  /** Max requests in flight; 0 disables prefetching. */
  runAhead: number;
  /**
   * Creates a test for each listing. It is called with each page, and returns true if the scan may end after that page
   * because the caller has found what it needs.
   */
  isEnough?: () => (page: ScannedPage) => boolean;
  /** The caller stops the scan after this many records, so that no more are prefetched. */
  maxRecords?: number;
  /** If given, the scan verifies at its end that the profile numbers the pages as the service does. */
  numbering?: Numbering;
  /** True if the caller keeps pages and releases the memory of each; otherwise the next page releases it. */
  keepsPages?: boolean;
  /** Max age of a page from a cache in milliseconds; absent for any age. */
  maxPageAgeMs?: number | undefined;
  /** When the scan ended that this one repeats, in local epoch milliseconds; absent or null for the first one. */
  formerEndedAt?: number | null;
  clock: Clock;
}

/**
 * Reads the pages of a resource in the order of the listing. The last page has `next: null`, and `end` with what proves
 * the end and what speaks against it. A scan that ends without such a page has thrown. If a numbered listing moved
 * meanwhile, a page may be returned a second time, with the records that had moved to it.
 *
 * Throws `SyncError` (recovery `stop`) if the service's pages cannot be accepted: `bad_page`, `pagination_invalid`,
 * `guard_loop`; `cursor_expired` if the scan has to start again; and what the client throws.
 */
export async function* scanPages(options: ScanOptions): AsyncGenerator<Page, void, undefined> {
  const { start, isResumed, listing, loops, prefetch, reader } = openScan(options);
  const isEnough = options.isEnough?.() ?? (() => false);
  let number = options.pagesBefore ?? 0;
  // A page that was read again reserves no memory.
  const toRepeatedPage = (page: ScannedPage): Page => ({ ...page, number: (number += 1), release: () => undefined });
  let position: PagePosition | null = start;
  try {
    if (isResumed) for (const page of await reader.verifyStart(position)) yield toRepeatedPage(page);
    while (position !== null) {
      const pages = await reader.read(position);
      const latest = pages.pop();
      if (latest === undefined) throw new Error('a position without a page');
      for (const page of pages) yield toRepeatedPage(page);
      const page = isEnough(latest) ? reader.cutShort(latest) : latest;
      const fault = loops.findFault(page);
      if (fault !== null) throw pageError(fault, position);
      const end = page.end && (await verifyNumbering(page, page.end, listing, options.numbering));
      const release = prefetch.takeRelease();
      const total = expectedRecords(page.total, listing.state.distinct, options.maxRecords);
      await prefetch.prefetch({ next: page.next, received: reader.step, total });
      yield { ...page, end, number: (number += 1), release };
      if (options.keepsPages !== true) release();
      prefetch.consumed();
      position = page.next;
    }
  } finally {
    await prefetch.close();
  }
}

/** Returns how many records the scan will read; null if unknown. A total below the number of seen records is wrong. */
function expectedRecords(total: number | null, seen: number | null, maxRecords = Infinity): number | null {
  const isUsable = total !== null && (seen === null || total >= seen);
  const expected = Math.min(isUsable ? total : Infinity, maxRecords);
  return expected === Infinity ? null : expected;
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
    // A resumed scan has read at least one page that named a next one: it was full.
    fullPageSize: options.fullPageSize ?? (isResumed ? resource.page.size : 0),
    hasStates: options.acceptsStates ?? false,
    isFiltered: options.isFiltered ?? false,
  });
  const listing: ListingParts = { resource, style, first, baseUrl, requestPage, acceptsEnd, state };
  // Overlapping pages each begin with the last record of the page before, so they hold one new record less.
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
