import type { ApiAnswer } from '../../http/client.ts';
import { SyncError } from '../../model/errors.ts';
import { REFUSED_CODES } from '../requests/ask.ts';
import { missingFault, walkError, type GuardFault } from './walk-guard.ts';
import type { PagePosition, EndProof } from '../page.ts';
import type { PageStep, PageStyle } from '../page-styles/page-styles.ts';
import { withPlaces, positionOf } from '../page-styles/listing-request.ts';
import { readPage, type ReadableResource, type ReadPage } from '../requests/read-page.ts';
import { KEY_FINGERPRINT_BYTES } from '../../rows/records/key-fingerprint.ts';
import { declaredEnd } from '../../config/profile/page-style.ts';
import { lastKnown, sameKeys } from './key-set.ts';

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

export interface ProvedEnd {
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
export async function proveEnd(last: LastPage): Promise<ProvedEnd> {
  const { read, step, met, kept } = last;
  const proved = (proof: EndProof): ProvedEnd => ({ proof, fault: null, kept });
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
export async function provePastEnd(facts: PastEndFacts): Promise<Pick<ProvedEnd, 'proof' | 'fault'>> {
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
