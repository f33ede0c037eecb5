import { SyncError } from '../../model/errors.ts';
import type { AnswerRule } from '../../config/profile/http-fields.ts';
import type { Page, PagePosition, Doubt } from '../page.ts';
import type { Foresight, PageStyle } from '../page-styles/page-styles.ts';
import { positionOf, urlAt } from '../page-styles/listing-request.ts';
import type { Ask } from '../requests/ask.ts';
import { LEAST_FOR_OVERLAP } from '../walked-pages.ts';
import type { ReadableResource, ReadPage } from '../requests/read-page.ts';
import { walkError, type GuardFault } from './walk-guard.ts';
import { sharedKeys } from './key-set.ts';
import { readQuietly } from './prove-end.ts';
import type { WalkLedger } from './walk-ledger.ts';

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

type LastPage = Pick<Page, 'position' | 'records' | 'kept' | 'end'>;

/** A page that shows whether the numbers are right, and the fault if they are not. */
interface Trial {
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
export async function proveNumbering(last: LastPage, listing: WalkedListing): Promise<Doubt | null> {
  const { numbering, style, first, resource, ask, ledger } = listing;
  if (numbering === undefined || numbering.isProved || style.ahead === null || ledger.met === null) return null;
  // The page behind the total was asked for already, and refused.
  const isRefused = last.records.length === 0 && last.end?.proof === 'total';
  const most = isRefused ? mayBeMost(ledger.lastTotal) : null;
  if (most !== null) return most;
  for (const { at, fault, refused = null } of trials(style.ahead, last, listing)) {
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

function trials(ahead: Foresight, last: LastPage, listing: WalkedListing): Trial[] {
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

function beforeFirst({ first, ask, resource }: WalkedListing): Trial['fault'] {
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

function behind({ ledger }: WalkedListing): Trial['fault'] {
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

const elsewhere: Trial['fault'] = ({ records }, fresh) =>
  fresh < records.length
    ? null
    : {
        code: 'pagination_offset',
        message: 'The page that begins with the last records holds none of them',
        hint: 'The service takes the offset for something else, mostly the number of a page: see page.style in the profile.',
      };
