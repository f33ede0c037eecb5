import type { AnswerRule } from '../../source/outcome-rule.ts';
import type { PageStyle } from '../page-styles/page-style.ts';
import { urlAt } from '../page-styles/position.ts';
import type { Ask } from '../requests/ask.ts';
import type { ReadableResource } from '../requests/read-page.ts';
import { walkError, type GuardFault } from './guard-fault.ts';
import { sharedKeys } from './page-keys.ts';
import { readQuietly } from './prove-end.ts';
import type { WalkEnd } from './walk-end.ts';
import type { WalkLedger } from './walk-ledger.ts';

/** Whether listings are known to begin with the page that the profile takes for the first. All listings of a walk share it. */
export interface ListingStart {
  isProved: boolean;
}

/** A walk that has come to its end. */
export interface EndedListing {
  /** Absent if nobody asks. */
  known: ListingStart | undefined;
  resource: ReadableResource;
  style: PageStyle;
  /** The first request of the listing. */
  first: URL;
  ask: Ask;
  ledger: Pick<WalkLedger, 'met' | 'lastTotal' | 'newAmong'>;
}

/** Many services make an error of their own of a page 0, and some keep it from their callers: neither is a page. */
const NO_PAGE: AnswerRule = { status: [403, 500], body: null };

/**
 * Asks for the page before the first one, where pages are numbered and no total proves that there is none: what a service
 * that counts from 0 lists first would be missing from every walk that begins with page 1, and nothing else shows it.
 * Throws `SyncError` (`pagination_start`) if it holds records that the walk has not met, and is not the first page itself,
 * as in a service that takes 0 for 1.
 */
export async function proveStart({ proof }: WalkEnd, listing: EndedListing): Promise<void> {
  const { known, style, first, resource, ask, ledger } = listing;
  // As many records or pages as the service tells of: there are none before them.
  const isWhole = proof === 'pages' || ledger.met === ledger.lastTotal;
  if (known === undefined || known.isProved || isWhole || ledger.met === null) return;
  const before = style.ahead?.beforeFirst(first) ?? null;
  if (before === null) return;
  const page = await readQuietly((at) => ask(at, { skips: NO_PAGE }), urlAt(first, before), resource);
  const fresh = page === null ? 0 : ledger.newAmong(page.keys);
  if (page !== null && fresh > 0) {
    const again = await readQuietly(ask, first, resource);
    // Records may have come since the first page was read.
    const isFirst = again !== null && 2 * sharedKeys(page.keys, again.keys) >= page.records.length;
    if (!isFirst) throw walkError(pagesBefore(fresh), before);
  }
  // Of an empty listing an empty page says nothing.
  known.isProved = page === null || page.records.length > 0 || ledger.met > 0;
}

function pagesBefore(records: number): GuardFault {
  return {
    code: 'pagination_start',
    message: `The page before the first one holds ${records} records that are on none of the others`,
    hint: 'The service counts its pages from another number: set page.first in the profile to that (mostly 0).',
  };
}
