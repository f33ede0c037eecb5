import type { ApiAnswer } from '../../http/client.ts';
import { KEY_FINGERPRINT_BYTES } from '../../shape/records/key-fingerprint.ts';
import { declaredEnd } from '../../source/page-end.ts';
import type { PagePosition } from '../page.ts';
import type { PageStep, PageStyle } from '../page-styles/page-style.ts';
import { positionOf } from '../page-styles/position.ts';
import type { ReadableResource, ReadPage } from '../requests/read-page.ts';
import type { GuardFault } from './guard-fault.ts';
import { lastKnown, sameKeys } from './page-keys.ts';
import { readQuietly, tieFault, type ProvedEnd } from './prove-end.ts';

/** How a page past the end was known: the profile declares it, or the service only refused it. */
export type PastEndSign = 'status' | 'repeated' | 'refused';

/** What is known where a page turned out to lie past the end. */
export interface PastEndFacts {
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
  if (sign === 'refused') return { proof: null, fault: refused };
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

const refused: GuardFault = {
  code: 'pagination_missing',
  message: 'The service refuses the page after a full one, and tells no total',
  hint: `${TELL}.`,
};

const HALF_PROVED: Readonly<Record<'status' | 'repeated', GuardFault>> = {
  status: {
    code: 'pagination_missing',
    message: 'The service refuses the page after a full one, which may be the end or a limit',
    hint: `${TELL}, or page.end.body to what it says only past the end.`,
  },
  repeated: {
    code: 'pagination_missing',
    message: 'The service gives the same page again after one as full as the others, which may be the end or a limit',
    hint: `${TELL}; if it never does, accept: [end].`,
  },
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
