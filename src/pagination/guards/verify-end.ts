// Verifies at the last page of a scan that the listing really ends there (`verifyEnd`, `verifyPastEnd`), and that its pages
// are numbered as the profile says (`verifyNumbering`).
//
// The end of a listing is often only the lack of something: no next link, or a refused page. A wrong profile looks the
// same. Example: `page.next_cursor` names a field that the service does not have. Then the first page looks like the
// last, and the copy would have 50 of 5,000 records.
import { declaredEnd } from '../../config/profile/page-style.ts';
import { SyncError } from '../../model/errors.ts';
import { KEY_FINGERPRINT_BYTES } from '../../rows/records/record-key.ts';
import { isSamePosition, type PagePosition, withPlaces } from '../page-styles/page-position.ts';
import type { NextStep, PagePositions, PageStyle } from '../page-styles/page-styles.ts';
import {
  type IncompleteReason,
  type EndProof,
  missingFault,
  pageError,
  type PageFault,
  type ScanEnd,
  type ScannedPage,
} from '../page.ts';
import {
  type OnePageOptions,
  type ReadableResource,
  readPage,
  type ReadPage,
  REFUSED_CODES,
  type RequestPage,
} from '../requests/read-page.ts';
import { lastKnown, sameKeys, sharedKeys } from './key-set.ts';
import type { PaginationState } from './pagination-state.ts';

/** The listing of a scan, with the functions that request its pages and the state of the scan. */
export interface ListingParts {
  resource: ReadableResource;
  style: PageStyle;
  /** The first request of the listing. */
  first: PagePosition;
  /** Links to next pages must not leave its origin. */
  baseUrl: URL;
  /** Requests any page, without prefetching. */
  requestPage: RequestPage;
  /** True if the profile accepts an unverified end. */
  acceptsEnd: boolean;
  state: PaginationState;
}

/** What shows that the listing has ended; or, if nothing does, what the response lacks. */
export type VerifiedEnd = EndProof | PageFault;

/** The step after a page that seems to be the last one. */
type LastStep = Exclude<NextStep, { next: PagePosition }>;

/**
 * Verifies that a listing ends with this page:
 * 1. If keyset pages may skip records that share a value, only a reached total is accepted.
 * 2. An empty page is the end. So is a page that reaches the total, or that the page style recognises as the last one,
 *    unless the response says that more follows.
 * 3. Otherwise requests the same page with one record less. If that names a next page, the service would have named one
 *    here too: this is the end, and the page counts as a full one.
 * 4. Otherwise the end is unverified. Throws if more records are likely, unless the profile accepts an unverified end.
 */
export async function verifyEnd(listing: ListingParts, read: ReadPage, step: LastStep): Promise<VerifiedEnd> {
  const { resource, state, acceptsEnd } = listing;
  const distinct = state.distinctWith(read);
  const hasAll = read.total !== null && distinct !== null && distinct >= read.total;
  const sharedValueFault = findSharedValueFault(resource);
  if (sharedValueFault !== null) return hasAll ? 'total' : sharedValueFault;
  // An empty page is the end even if it names a next page: some services always name one.
  if (read.records.length === 0) return step.end ?? 'empty';
  const { more } = read.signals;
  if (step.end !== null || hasAll) {
    if (more === null) return step.end ?? 'total';
    return missingFault(
      `The last page by page.style ${resource.page.style} says that more follows at ${more}`,
      'If that is where the service tells of more pages, name it in the page section of the profile.',
    );
  }
  const result = more === null ? await requestSmallerPage(listing, read) : 'names_none';
  if (result === 'names_next') {
    state.fullPageSize = Math.max(state.fullPageSize, read.records.length);
    return 'signal';
  }
  const hint = more === null ? step.fault.hint : `The response says at ${more}. ${step.fault.hint}`;
  const fault = { ...step.fault, hint };
  const isMoreLikely = result === 'names_none' || mayHaveMore(read, resource.page, state.fullPageSize);
  if (!acceptsEnd && isMoreLikely) throw pageError(fault, read.request);
  return fault;
}

/** Returns the fault of keyset pages that begin after a value which several records may share; null for any others. */
function findSharedValueFault({ page, id, partition }: ReadableResource): PageFault | null {
  if (page.style !== 'keyset') return null;
  // All records of one listing have the same partition, so the rest of the id is unique.
  const others = [id].flat().filter((field) => field !== partition?.field);
  if (others.length === 1 && others[0] === page.cursor_field) return null;
  return missingFault(
    `Pages begin behind the last ${page.cursor_field}, and records that share it may have been skipped`,
    'Set page.cursor_field in the profile to the id, or page.total to where the service tells how many there are.',
  );
}

/** True if more records are likely: the page is full, or there is a total, which the scan has not reached. */
function mayHaveMore({ records, total }: ReadPage, page: ReadableResource['page'], fullPageSize: number): boolean {
  const received = records.length;
  return (
    total !== null ||
    (fullPageSize > 0 && received >= fullPageSize) ||
    (page.size_param !== null && received >= page.size)
  );
}

/** Requests the same page with one record less. If the service names next pages at all, it names one then. */
async function requestSmallerPage(
  listing: ListingParts,
  read: ReadPage,
): Promise<'names_next' | 'names_none' | 'unknown'> {
  const { size_param: param } = listing.resource.page;
  const wanted = read.records.length - 1;
  if (param === null || wanted < 1) return 'unknown';
  const smaller = withPlaces(read.request, { [param]: wanted });
  const cut = await readUnlessRefused(listing, smaller);
  if (cut === null || cut.records.length !== wanted) return 'unknown';
  // Totals are removed, so that only a next link can show that more follows.
  const facts = { isEmpty: false, seen: wanted, fullPageSize: 0 };
  const step = stepAfter(listing, { ...cut, total: null, pages: null }, facts);
  // A page that names itself names no next page.
  return 'next' in step && !isSamePosition(step.next, smaller) ? 'names_next' : 'names_none';
}

interface ScanFacts {
  isEmpty: boolean;
  seen: number | null;
  fullPageSize: number;
}

export function stepAfter(
  { style, first, baseUrl }: ListingParts,
  page: ReadPage,
  facts: ScanFacts,
): NextStep | PageFault {
  return style.next({ ...page, isFirst: isSamePosition(page.request, first), baseUrl, ...facts });
}

/** Reads a page; null if the service refuses the request, or its response is no page. */
async function readUnlessRefused(
  { requestPage, resource }: ListingParts,
  position: PagePosition,
  options: OnePageOptions = {},
): Promise<ReadPage | null> {
  try {
    const read = readPage(await requestPage(position, options), position, resource);
    return 'code' in read ? null : read;
  } catch (error) {
    if (error instanceof SyncError && REFUSED_CODES.has(error.code)) return null;
    throw error;
  }
}

/** Why a page counts as past the end: the profile declares its status, it repeats the last page, or it is refused. */
export type PastEndSign = 'status' | 'repeated' | 'refused';

/**
 * Verifies that a listing ends before a page that looks past its end. A refusal or a repetition alone may be a limit of
 * the service. It is the end in these cases:
 * 1. The scan has reached the total.
 * 2. The profile declares this response, with its body, as the end.
 * 3. In a numbered listing, the last page is shorter than the largest one, or than the requested size if it is the only
 *    page and the profile declares the status.
 * 4. In a numbered listing, requested with another page size, the records end with a short page after the same records.
 */
export async function verifyPastEnd(listing: ListingParts, last: ReadPage, sign: PastEndSign): Promise<VerifiedEnd> {
  const { style, resource, state } = listing;
  const { page } = resource;
  if (state.isComplete) return 'total';
  const sharedValueFault = findSharedValueFault(resource);
  if (sharedValueFault !== null) return sharedValueFault;
  if (sign === 'status' && declaredEnd(page).body !== null) return 'status';
  const count = last.records.length;
  if (style.positions !== null && count < state.fullPageSize) return 'short';
  if (sign === 'refused' || style.positions === null) return UNVERIFIED[sign];
  const isOnly = state.received === count;
  const isShortOnly = sign === 'status' && isOnly && page.size_param !== null && count < page.size;
  return isShortOnly || (await endsShortAtOtherSize(listing, style.positions, last)) ? 'short' : UNVERIFIED[sign];
}

/** How many smaller page sizes are considered. */
const MAX_SIZES = 3;

/**
 * Requests the last page by a smaller page size. Example: two full pages of 50 records. By 49, the listing must end with a
 * page of the last 2 records; a service that only limits the number of pages returns more.
 */
async function endsShortAtOtherSize(listing: ListingParts, positions: PagePositions, last: ReadPage): Promise<boolean> {
  const { received, fullPageSize } = listing.state;
  if (received === null) return false;
  const sizes = Array.from({ length: MAX_SIZES }, (_, index) => fullPageSize - 1 - index);
  const size = sizes.find((one) => one > 1 && received % one !== 0);
  const lastBySize = size === undefined ? null : positions.containing(last.request, received, size);
  if (size === undefined || lastBySize === null) return false;
  const cut = await readUnlessRefused(listing, lastBySize);
  const bytes = (received % size) * KEY_FINGERPRINT_BYTES;
  if (cut === null || cut.keys.length !== bytes || cut.records.length !== received % size) return false;
  const shared = Math.min(bytes, last.keys.length);
  return shared > 0 && sameKeys(cut.keys.subarray(-shared), last.keys.subarray(-shared));
}

/** True if a page has the same records as the page before it. */
export function isRepeated(read: ReadPage, keysBefore: Uint8Array): boolean {
  const isKeyed = read.keys.length === read.records.length * KEY_FINGERPRINT_BYTES;
  return read.records.length > 0 && isKeyed && sameKeys(read.keys, keysBefore);
}

const NAME_TOTAL = 'Set page.total or page.pages in the profile to where the service tells how much there is';

const UNVERIFIED: Readonly<Record<PastEndSign, PageFault>> = {
  refused: missingFault('The service refuses the page after a full one, and tells no total', `${NAME_TOTAL}.`),
  status: missingFault(
    'The service refuses the page after a full one, which may be the end or a limit',
    `${NAME_TOTAL}, or page.end.body to what it says only past the end.`,
  ),
  repeated: missingFault(
    'The service gives the same page again after one as full as the others, which may be the end or a limit',
    `${NAME_TOTAL}; if it never does, accept: [end].`,
  ),
};

/**
 * Decides what follows a page that names itself as the next one:
 * 1. An empty page is the end.
 * 2. A page with new records that is shorter than a page that named another one is the end. If the records are not new,
 *    the service may ignore the cursor's parameter and return the first page each time.
 * 3. If the profile declares an unchanged cursor as the end, a later page with new records is the end, and a first page
 *    if it has one record although more were requested.
 */
export function stepFromSelfLink(
  { resource: { page }, state }: ListingParts,
  read: ReadPage,
  step: NextStep,
): NextStep {
  if (!('next' in step) || !isSamePosition(step.next, read.request)) return step;
  const received = read.records.length;
  if (received === 0) return { end: 'unchanged' };
  const before = state.lastRead;
  const isNew = before === null || lastKnown(read.keys, before.keys) === -1;
  if (received < state.fullPageSize && isNew) return { end: 'short' };
  if (!declaredEnd(page).unchanged_cursor) return step;
  if (before !== null) return isNew ? { end: 'unchanged' } : step;
  const isAlone = received === 1 && page.size_param !== null && page.size > 1;
  return isAlone ? { end: 'short' } : { end: null, fault: SELF_LINK_ONLY };
}

const SELF_LINK_ONLY: PageFault = {
  code: 'guard_loop',
  message: 'The page names itself as the next page, and nothing else shows that it is the last one',
  hint: 'Set page.size_param, by which a smaller page can be asked for, or page.total to where the service tells how many there are.',
};

/** Whether it is verified that pages are numbered as the profile says. All listings of a scan share it. */
export interface Numbering {
  isVerified: boolean;
}

/** Some services refuse a page that does not exist, such as page 0, with these statuses. */
const TO_VERIFY: OnePageOptions = { skips: { status: [403, 500], body: null } };
/** How many of the last records are requested: more than are likely to have been deleted since the end of the scan. */
const LAST_RECORDS = 3;
/** Numbers such as 10000, beyond which search engines, and services built on them, list and count no records. */
const USUAL_MAX = /^[125]0{3,}$/;
/** The smallest pages that overlap by a record. For smaller ones, that would cost more than 5 % of the requests. */
export const MIN_OVERLAPPING_PAGE = 20;

/** Pages are not numbered as the profile says. */
export class NumberingError extends SyncError {}

/**
 * At the end of a scan over numbered pages, requests pages that have further records if the profile is wrong:
 * - the one after the last: `page.total` may count something else;
 * - the one before the first: the service may count pages from 0;
 * - the one with the last records: the service may take the offset for a page number.
 * Throws `NumberingError` if one does. Returns the end of the scan, with a reason why it may be incomplete if the total
 * may be the maximum up to which the service counts.
 */
export async function verifyNumbering(
  last: ScannedPage,
  end: ScanEnd,
  listing: ListingParts,
  numbering: Numbering | undefined,
): Promise<ScanEnd> {
  const { style, state } = listing;
  const { distinct, lastTotal } = state;
  if (numbering === undefined || numbering.isVerified || style.positions === null || distinct === null) return end;
  // The scan has requested the page after the total already, and it was refused.
  const isRefused = last.records.length === 0 && end.proof === 'total';
  const mayBeMax = isRefused || (distinct === lastTotal && (await isRefusedAfterTotal(listing, style.positions, last)));
  const reason = mayBeMax ? maxTotalReason(lastTotal) : null;
  if (reason !== null) return { ...end, incompleteReasons: [...end.incompleteReasons, reason] };
  if (distinct !== lastTotal) {
    if (end.proof !== 'pages') await verifyFirst(listing, style.positions);
    await verifyOffset(listing, style.positions, last);
  }
  // An empty listing does not show how its pages are numbered.
  numbering.isVerified = distinct > 0;
  return end;
}

/** Requests the page after the one that reached the total. Returns true if the service refuses it. */
async function isRefusedAfterTotal(
  listing: ListingParts,
  positions: PagePositions,
  { position, records, fullPageSize }: ScannedPage,
): Promise<boolean> {
  // After a page that is shorter than the others, none can follow.
  if (records.length === 0 || records.length < fullPageSize) return false;
  const { lastTotal } = listing.state;
  const next = positions.after(position, records.length);
  const page = await readUnlessRefused(listing, next, TO_VERIFY);
  if (page === null) return true;
  const fresh = listing.state.countNew(page.keys);
  // New records may have been created since: then the total has grown.
  const hasGrown = page.total !== null && page.total > (lastTotal ?? 0);
  if (fresh === 0 || hasGrown) return false;
  throw numberingError(
    next,
    `${fresh} more records follow after as many as page.total tells (${lastTotal})`,
    'What page.total names in the profile counts something else, such as the records of one page: name where the service tells how many there are in all, or set it to null.',
  );
}

async function verifyFirst(listing: ListingParts, positions: PagePositions): Promise<void> {
  const { first, state } = listing;
  const before = positions.beforeFirst(first);
  const page = before === null ? null : await readUnlessRefused(listing, before, TO_VERIFY);
  const fresh = page === null ? 0 : state.countNew(page.keys);
  if (before === null || page === null || fresh === 0) return;
  // The service may treat page 0 as page 1, on which records may have been created since it was read.
  const again = await readUnlessRefused(listing, first);
  if (again !== null && 2 * sharedKeys(page.keys, again.keys) >= page.records.length) return;
  throw numberingError(
    before,
    `The page before the first one holds ${fresh} records that are on none of the others`,
    'The service counts its pages from another number: set page.first in the profile to that (mostly 0).',
  );
}

/** Requests the page that begins with the last records. Pages that overlap need no check: the shared record verifies the offset. */
async function verifyOffset(listing: ListingParts, positions: PagePositions, last: ScannedPage): Promise<void> {
  const { first, state } = listing;
  if (last.fullPageSize >= MIN_OVERLAPPING_PAGE || state.distinct === 0) return;
  const lastRecordsPosition = positions.earlier(last.position, LAST_RECORDS);
  if (lastRecordsPosition === null || isSamePosition(lastRecordsPosition, first)) return;
  const page = await readUnlessRefused(listing, lastRecordsPosition, TO_VERIFY);
  if (page === null || state.countNew(page.keys) < page.records.length) return;
  throw numberingError(
    lastRecordsPosition,
    'The page that begins with the last records holds none of them',
    'The service takes the offset for something else, mostly the number of a page: see page.style in the profile.',
  );
}

function numberingError(position: PagePosition, message: string, hint: string): NumberingError {
  const error = pageError({ code: 'pagination_invalid', message, hint }, position);
  return new NumberingError(error.code, error.message, { recovery: error.recovery, hint: error.hint });
}

function maxTotalReason(total: number | null): IncompleteReason | null {
  if (!USUAL_MAX.test(String(total))) return null;
  return {
    code: 'unproved',
    message: `the listing tells a total of exactly ${total} and refuses the page after that, as a service does that lists and counts no more`,
    hint: 'where it lists no more at once, ask for it by page.style keyset or cursor, or by partitions; where there are just so many, accept: [end] in the profile',
  };
}
