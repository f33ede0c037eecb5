import type { AnswerRule } from '../../config/profile/http-fields.ts';
import { declaredEnd } from '../../config/profile/page-style.ts';
import type { ApiAnswer } from '../../http/client.ts';
import { SyncError } from '../../model/errors.ts';
import { KEY_FINGERPRINT_BYTES } from '../../rows/records/key-fingerprint.ts';
import { positionOf, urlAt, withPlaces } from '../page-styles/listing-request.ts';
import type { Foresight, PageStep, PageStyle } from '../page-styles/page-styles.ts';
import type { Doubt, EndProof, Page, PagePosition } from '../page.ts';
import { type Ask, REFUSED_CODES } from '../requests/ask.ts';
import { type ReadableResource, readPage, type ReadPage } from '../requests/read-page.ts';
import { LEAST_FOR_OVERLAP } from '../walked-pages.ts';
import { lastKnown, sameKeys, sharedKeys } from './key-set.ts';
import { type GuardFault, missingFault, walkError } from './walk-guard.ts';
import type { WalkLedger } from './pagination-state.ts';

/** The last page by its page style, and what its walk knows. */
export interface LastPage {
  read: ReadPage;
  step: Exclude<PageStep, { next: PagePosition }>;
  resource: ReadableResource;
  style: PageStyle;
  /** The first request of the listing. */
  first: URL;
  /** Asks for a page out of its turn. */
  ask: (position: PagePosition) => Promise<ApiAnswer>;
  /** Records so far, and on the largest page that named a next one, or was proved to be the last by a smaller one. */
  met: number | null;
  kept: number;
  /** True if the profile accepts an end that nothing proves. */
  acceptsEnd: boolean;
}

export interface VerifiedEnd {
  /** Null if nothing shows the end. */
  proof: EndProof | null;
  /** The lack of a proof; null if there is one. */
  fault: GuardFault | null;
  kept: number;
}

/** The result of asking for a page with a record less, after which there must be a next one. */
type Trial = 'names_next' | 'names_none' | 'says_nothing';

/**
 * The proof that a listing ends with this page. If the service only leaves out to name a next page, it is tried whether
 * it names one where there must be one. Throws if the answer speaks for more records than came; if nothing
 * speaks for either, there is no proof.
 */
export async function verifyEnd(last: LastPage): Promise<VerifiedEnd> {
  const { read, step, met, kept } = last;
  const proved = (proof: EndProof): VerifiedEnd => ({ proof, fault: null, kept });
  const ties = tieFault(last.resource);
  if (ties !== null) {
    const isTotal = read.total !== null && met !== null && met >= read.total;
    return isTotal ? proved('total') : { proof: null, fault: ties, kept };
  }
  // A page behind the last one may count on for ever.
  if (read.records.length === 0) return proved(step.end ?? 'empty');
  const { more } = read.signals;
  const hasAll = read.total !== null && met !== null && met >= read.total;
  if (step.end !== null || hasAll) {
    const where = `The last page by page.style ${last.resource.page.style} says that more follows at ${more}`;
    return more === null ? proved(step.end ?? 'total') : { proof: null, fault: missingFault(where, UNNAMED), kept };
  }
  const trial = more === null ? await tryLess(last) : 'names_none';
  // Whoever gives so many and names no next page then has no more: nor has a shorter page.
  if (trial === 'names_next') return { ...proved('signal'), kept: Math.max(kept, read.records.length) };
  const hint = more === null ? step.fault.hint : `The response says at ${more}. ${step.fault.hint}`;
  const fault = { ...step.fault, hint };
  if (!last.acceptsEnd && (trial === 'names_none' || isFull(last))) throw walkError(fault, positionOf(read.url));
  return { proof: null, fault, kept };
}

const UNNAMED = 'If that is where the service tells of more pages, name it in the page section of the profile.';

/** The doubt about pages that begin behind a value which several records may share; null for any others. */
function tieFault({ page, id, partition }: ReadableResource): GuardFault | null {
  if (page.style !== 'keyset') return null;
  // Within one listing of several, the field that says which one it is tells no records apart.
  const others = [id].flat().filter((field) => field !== partition?.field);
  if (others.length === 1 && others[0] === page.cursor_field) return null;
  return missingFault(
    `Pages begin behind the last ${page.cursor_field}, and records that share it may have been skipped`,
    'Set page.cursor_field in the profile to the id, or page.total to where the service tells how many there are.',
  );
}

/** As many records as were asked for, or fewer than the service says there are: more of them are likely. */
function isFull({ read, resource: { page }, kept }: LastPage): boolean {
  const received = read.records.length;
  return read.total !== null || (kept > 0 && received >= kept) || (page.size_param !== null && received >= page.size);
}

/** Asks for the same page with a record less: a service that names next pages names one then. */
async function tryLess({ read, resource, style, first, ask }: LastPage): Promise<Trial> {
  const { size_param: param } = resource.page;
  const wanted = read.records.length - 1;
  if (param === null || wanted < 1) return 'says_nothing';
  const url = withPlaces(read.url, { [param]: wanted });
  const cut = await readQuietly(ask, url, resource);
  if (cut === null || cut.records.length !== wanted) return 'says_nothing';
  const { headers, json, withheld, url: answeredUrl } = cut.answer;
  const counts = {
    records: cut.records,
    received: wanted,
    isEmpty: false,
    seen: wanted,
    total: null,
    pages: null,
    kept: 0,
  };
  const step = style.next({ url, answeredUrl, baseUrl: first, headers, json, withheld, ...counts });
  // One that names itself leads nowhere.
  return 'next' in step && step.next !== positionOf(url) ? 'names_next' : 'names_none';
}

/** Null if the service refuses the request, or its answer is no page. */
export async function readQuietly(
  ask: LastPage['ask'],
  url: URL,
  resource: ReadableResource,
): Promise<ReadPage | null> {
  try {
    const read = readPage(await ask(positionOf(url)), url, resource);
    return 'code' in read ? null : read;
  } catch (error) {
    if (error instanceof SyncError && REFUSED_CODES.has(error.code)) return null;
    throw error;
  }
}

/** How a page past the end was known: the profile declares it, or the service only refused it. */
export type PastEndSign = 'status' | 'repeated' | 'refused';

/** What is known where a page turned out to lie past the end. */
interface PastEndFacts {
  sign: PastEndSign;
  /** The page before, and records on all pages so far; null if nobody counted. */
  last: ReadPage;
  received: number | null;
  /** Records on the largest page so far, in this walk or an earlier one. */
  kept: number;
  /** True if as many records were met as the service tells. */
  isComplete: boolean;
  resource: ReadableResource;
  style: PageStyle;
  ask: (position: PagePosition) => Promise<ApiAnswer>;
}

/**
 * The proof that a listing ends before a page that lies past its end. A refusal or a repetition alone may be a limit of
 * the service; behind a page shorter than the others, or cut the same way by another page size, it is the end.
 */
export async function verifyPastEnd(facts: PastEndFacts): Promise<Pick<VerifiedEnd, 'proof' | 'fault'>> {
  const { sign, last, kept, isComplete, style, resource } = facts;
  const { page } = resource;
  if (isComplete) return { proof: 'total', fault: null };
  const ties = tieFault(resource);
  if (ties !== null) return { proof: null, fault: ties };
  if (sign === 'status' && declaredEnd(page).body !== null) return { proof: 'status', fault: null };
  const count = last.records.length;
  if (style.ahead !== null && count < kept) return { proof: 'short', fault: null };
  if (sign === 'refused') return { proof: null, fault: HALF_PROVED.refused };
  const isOnly = facts.received === count;
  const isOneShort = sign === 'status' && isOnly && page.size_param !== null && count < page.size;
  const isShort = style.ahead !== null && (isOneShort || (await isShortBySize(facts)));
  return isShort ? { proof: 'short', fault: null } : { proof: null, fault: HALF_PROVED[sign] };
}

/** Sizes that are tried, each one less than the one before. */
const MOST_SIZES = 3;

/** Cut by a size that does not divide the records so far, the listing must end with a page that is not full. */
async function isShortBySize({ last, received, kept, resource, style, ask }: PastEndFacts): Promise<boolean> {
  if (received === null) return false;
  const sizes = Array.from({ length: MOST_SIZES }, (_, less) => kept - 1 - less);
  const size = sizes.find((one) => one > 1 && received % one !== 0);
  const url = size === undefined ? null : (style.ahead?.holding(last.url, received, size) ?? null);
  if (size === undefined || url === null) return false;
  const cut = await readQuietly(ask, url, resource);
  const bytes = (received % size) * KEY_FINGERPRINT_BYTES;
  if (cut === null || cut.keys.length !== bytes || cut.records.length !== received % size) return false;
  const shared = Math.min(bytes, last.keys.length);
  return shared > 0 && sameKeys(cut.keys.subarray(-shared), last.keys.subarray(-shared));
}

/** True if a page is the one before it, record by record. */
export function isRepeated(read: ReadPage, keysBefore: Uint8Array): boolean {
  const isKeyed = read.keys.length === read.records.length * KEY_FINGERPRINT_BYTES;
  return read.records.length > 0 && isKeyed && sameKeys(read.keys, keysBefore);
}

const TELL = 'Set page.total or page.pages in the profile to where the service tells how much there is';

const HALF_PROVED: Readonly<Record<PastEndSign, GuardFault>> = {
  refused: missingFault('The service refuses the page after a full one, and tells no total', `${TELL}.`),
  status: missingFault(
    'The service refuses the page after a full one, which may be the end or a limit',
    `${TELL}, or page.end.body to what it says only past the end.`,
  ),
  repeated: missingFault(
    'The service gives the same page again after one as full as the others, which may be the end or a limit',
    `${TELL}; if it never does, accept: [end].`,
  ),
};

/** A page and the one before it in its walk, if there is one. */
interface OwnNext {
  page: ReadableResource['page'];
  read: ReadPage;
  before: ReadPage | null;
  /** Records on the largest page that named another one; 0 if none did. */
  kept: number;
}

/**
 * The step from a page that names itself as the next one. It is the end if the page is empty or shorter than one that named
 * a next page, or if the profile declares it. Its records must be new: if the service does not know the cursor's
 * parameter, each page is the first one. A service may return any cursor that it is sent, so a first page must be short.
 */
export function stepFromOwn(step: PageStep, { page, read, before, kept }: OwnNext): PageStep {
  if (!('next' in step) || step.next !== positionOf(read.url)) return step;
  const received = read.records.length;
  if (received === 0) return { end: 'unchanged' };
  const isNew = before === null || lastKnown(read.keys, before.keys) === -1;
  if (received < kept && isNew) return { end: 'short' };
  if (!declaredEnd(page).unchanged_cursor) return step;
  if (before !== null) return isNew ? { end: 'unchanged' } : step;
  const isAlone = received === 1 && page.size_param !== null && page.size > 1;
  return isAlone ? { end: 'short' } : { end: null, fault: OWN_FIRST };
}

const OWN_FIRST: GuardFault = {
  code: 'guard_repeated_cursor',
  message: 'The page names itself as the next page, and nothing else shows that it is the last one',
  hint: 'Set page.size_param, by which a smaller page can be asked for, or page.total to where the service tells how many there are.',
};

/** Whether pages are known to be numbered as the profile says. All listings of a walk share it. */
export interface Numbering {
  isProved: boolean;
}

/** A listing that was walked to its end, or as far as somebody wanted. */
interface WalkedListing {
  /** Absent if nobody asks. */
  numbering: Numbering | undefined;
  resource: ReadableResource;
  style: PageStyle;
  /** The first request of the listing. */
  first: URL;
  ask: Ask;
  ledger: Pick<WalkLedger, 'met' | 'lastTotal' | 'newAmong'>;
}

type FinalPage = Pick<Page, 'position' | 'records' | 'kept' | 'end'>;

/** A page that shows whether the numbers are right, and the fault if they are not. */
interface NumberingCheck {
  at: PagePosition;
  fault: (page: ReadPage, fresh: number) => GuardFault | null | Promise<GuardFault | null>;
  /** What it speaks for that the service does not answer with a page; absent: nothing. */
  refused?: Doubt | null;
}

/** Many services make an error of their own of a page 0, and some keep it from their callers: neither is a page. */
const NO_PAGE: AnswerRule = { status: [403, 500], body: null };
/** So many may have been deleted since the listing came to its end. */
const LAST = 3;
/** Numbers up to which search engines, and what is built on them, list and count. */
const USUAL_MOST = /^[125]0{3,}$/;

/**
 * Looks, at the end of a walk over numbered pages, where records would lie that nothing else speaks of if the profile were
 * wrong: before the first page if the service counts from 0; behind the last one if what is named as the total counts the
 * records of a page, or the pages; and at the last records if the service takes an offset for the number of a page. One
 * request for each that no other sign excludes. Returns a doubt if the total may be the most that the service counts.
 * Throws `SyncError` (`pagination_start`, `pagination_total`, `pagination_offset`).
 */
export async function verifyNumbering(last: FinalPage, listing: WalkedListing): Promise<Doubt | null> {
  const { numbering, style, first, resource, ask, ledger } = listing;
  if (numbering === undefined || numbering.isProved || style.ahead === null || ledger.met === null) return null;
  // The page behind the total was asked for already, and refused.
  const isRefused = last.records.length === 0 && last.end?.proof === 'total';
  const most = isRefused ? mayBeMost(ledger.lastTotal) : null;
  if (most !== null) return most;
  for (const { at, fault, refused = null } of numberingChecks(style.ahead, last, listing)) {
    const page = await readQuietly((position) => ask(position, { skips: NO_PAGE }), urlAt(first, at), resource);
    if (page === null && refused !== null) return refused;
    const found = page === null ? null : await fault(page, ledger.newAmong(page.keys));
    if (found !== null) throw walkError(found, at);
  }
  // An empty listing shows nothing of its numbers.
  numbering.isProved = ledger.met > 0;
  return null;
}

const FAULTS: ReadonlySet<string> = new Set(['pagination_start', 'pagination_total', 'pagination_offset']);

/** True of an error that says that pages are numbered otherwise than the profile says. */
export function isNumberingFault(error: unknown): boolean {
  return error instanceof SyncError && FAULTS.has(error.code);
}

function numberingChecks(ahead: Foresight, last: FinalPage, listing: WalkedListing): NumberingCheck[] {
  const { first, ledger } = listing;
  const { records, kept, end } = last;
  const isTotal = ledger.lastTotal !== null && ledger.met === ledger.lastTotal;
  if (isTotal) {
    // A page shorter than the others is the last one, whatever was counted.
    const mayGoOn = records.length > 0 && records.length >= kept;
    const next = ahead.after(urlAt(first, last.position), records.length);
    return mayGoOn ? [{ at: next, fault: behind(listing), refused: mayBeMost(ledger.lastTotal) }] : [];
  }
  const before = end?.proof === 'pages' ? null : ahead.beforeFirst(first);
  // Pages that overlap with the one before show by that where they begin.
  const sooner = kept < LEAST_FOR_OVERLAP && ledger.met !== 0 ? ahead.sooner(urlAt(first, last.position), LAST) : null;
  const isElsewhere = sooner !== null && positionOf(sooner) !== positionOf(first);
  return [
    ...(before === null ? [] : [{ at: before, fault: beforeFirst(listing) }]),
    ...(isElsewhere ? [{ at: positionOf(sooner), fault: elsewhere }] : []),
  ];
}

function beforeFirst({ first, ask, resource }: WalkedListing): NumberingCheck['fault'] {
  return async ({ keys, records }, fresh) => {
    if (fresh === 0) return null;
    // A service may take 0 for 1, and records may have come onto that page since it was read.
    const again = await readQuietly(ask, first, resource);
    if (again !== null && 2 * sharedKeys(keys, again.keys) >= records.length) return null;
    return {
      code: 'pagination_start',
      message: `The page before the first one holds ${fresh} records that are on none of the others`,
      hint: 'The service counts its pages from another number: set page.first in the profile to that (mostly 0).',
    };
  };
}

function behind({ ledger }: WalkedListing): NumberingCheck['fault'] {
  return ({ total }, fresh) => {
    // What has come since then is counted by now.
    const hasGrown = total !== null && total > (ledger.lastTotal ?? 0);
    if (fresh === 0 || hasGrown) return null;
    return {
      code: 'pagination_total',
      message: `${fresh} more records follow after as many as page.total tells (${ledger.lastTotal})`,
      hint: 'What page.total names in the profile counts something else, such as the records of one page: name where the service tells how many there are in all, or set it to null.',
    };
  };
}

function mayBeMost(total: number | null): Doubt | null {
  if (!USUAL_MOST.test(String(total))) return null;
  return {
    code: 'unproved',
    message: `the listing tells a total of exactly ${total} and refuses the page after that, as a service does that lists and counts no more`,
    hint: 'where it lists no more at once, ask for it by page.style keyset or cursor, or by partitions; where there are just so many, accept: [end] in the profile',
  };
}

const elsewhere: NumberingCheck['fault'] = ({ records }, fresh) =>
  fresh < records.length
    ? null
    : {
        code: 'pagination_offset',
        message: 'The page that begins with the last records holds none of them',
        hint: 'The service takes the offset for something else, mostly the number of a page: see page.style in the profile.',
      };
