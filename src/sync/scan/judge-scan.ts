// Judges the end of a scan: whether it has seen every record, whether rows that it has not seen may be deleted, and what
// the run warns of.
//
// The end of a scan has reasons why it may be incomplete (`IncompleteReason` says what each means). Example: the service
// counts 100 records and the scan saw 98. Then the copy is not complete, no row is deleted, and the scan is repeated.
import type { ResourceProfile } from '../../config/profile/profile.ts';
import type { IncompleteReason, Page, ScanEnd } from '../../pagination/page.ts';
import { cursorOfScan } from '../feed/feed-response.ts';
import type { Warning } from '../report.ts';
import type { RunContext } from '../run-progress.ts';

export interface ScanVerdict {
  /** True if the scan saw every record, or the profile accepts a scan of which nothing shows it. */
  isComplete: boolean;
  /** True if records that the scan has not seen become delete candidates. */
  allowsDeletes: boolean;
  /** The reasons why the scan may be incomplete that remain to be reported. */
  incompleteReasons: readonly IncompleteReason[];
  /** True if records that changed during the scan may be missing: the filter or the feed then supplies them. */
  needsCatchUp: boolean;
  /** True if the pages came out of a cache, so that the scan shows nothing about the service now. */
  isCached: boolean;
  /** True if another scan may be complete although this one is not. */
  mayRepeat: boolean;
}

export interface EndedScan {
  end: ScanEnd;
  verdict: ScanVerdict;
}

/**
 * Judges the end of a scan from its last page. If the page names where the service's feed of changes continues, that
 * shows that the listing has ended.
 */
export function concludeScan(
  context: RunContext,
  page: Page,
  end: ScanEnd,
  { former, isCatchUp = false }: { former: ScanEnd | null; isCatchUp?: boolean },
): EndedScan {
  const namesFeedCursor = cursorOfScan(context, page) !== null;
  const judged = namesFeedCursor
    ? { ...end, incompleteReasons: end.incompleteReasons.filter(({ code }) => code !== 'unproved') }
    : end;
  const verdict = judgeScan(judged, context.profile, former);
  return { end: judged, verdict: isCatchUp ? { ...verdict, isComplete: false } : verdict };
}

/** Reasons that come from movement, which may be over when the listing is scanned again. */
const BY_MOVEMENT: ReadonlySet<IncompleteReason['code']> = new Set(['slipped', 'entered', 'unwatched']);
/** Reasons for which a record may exist and be on no page that was read. */
const FORBIDS_DELETES: ReadonlySet<IncompleteReason['code']> = new Set(['slipped', 'entered', 'fewer']);

const WARNING_CODES: Readonly<Record<IncompleteReason['code'], Warning['code']>> = {
  unproved: 'end_unproved',
  fewer: 'total_not_reached',
  slipped: 'listing_moved',
  entered: 'listing_moved',
  unwatched: 'listing_moved',
  cached: 'pages_cached',
  unread: 'listing_unread',
};

/** Judges the end of a scan; `former` is the end of the scan that it repeats, or null. Pure. */
export function judgeScan(
  end: ScanEnd,
  { accept, incremental, feed }: ResourceProfile,
  former: ScanEnd | null,
): ScanVerdict {
  const isSame = former !== null && former.keysHash === end.keysHash;
  const codes = new Set(end.incompleteReasons.map(({ code }) => code));
  // The feed of changes lists the records that were created during the scan.
  const isListedByFeed = feed !== null && end.shortfall?.isGrowth === true;
  // If the repeated scan saw the same pages, no change has moved records: the service sorts its pages inconsistently.
  const isMovement = codes.has('entered') && !codes.has('slipped') && !isSame;
  const isListedLater = isMovement && (incremental !== null || feed !== null);
  const remaining = end.incompleteReasons.filter(({ code }) => {
    if (code === 'unwatched') return !isSame;
    if (code === 'fewer') return !isListedByFeed;
    return code !== 'entered' || !isListedLater;
  });
  const isAccepted = accept.includes('end');
  const isCached = remaining.some(({ code }) => code === 'cached') && !accept.includes('cache');
  // False if the service refused one of several listings.
  const isRead = !codes.has('unread');
  // `accept: [end]` covers these reasons only. Cached pages have their own setting, and a refused listing has none.
  const acceptable = remaining.filter(({ code }) => code !== 'cached' && code !== 'unread');
  const isShort = acceptable.some(({ code }) => code === 'fewer');
  const hasMoved = acceptable.some(({ code }) => BY_MOVEMENT.has(code));
  return {
    isComplete: !isCached && isRead && (acceptable.length === 0 || (isAccepted && !isShort)),
    // The rows of a refused listing count as listed, so deletes in the other listings are still found.
    allowsDeletes:
      !isCached &&
      end.incompleteReasons.every(({ code }) => !FORBIDS_DELETES.has(code)) &&
      (isAccepted || acceptable.length === 0),
    // If records are missing from the total, a warning that records moved adds nothing.
    incompleteReasons: isShort ? remaining.filter(({ code }) => !BY_MOVEMENT.has(code)) : remaining,
    needsCatchUp: isListedLater || isListedByFeed,
    isCached,
    mayRepeat: isCached || (hasMoved && !isAccepted) || (isShort && !isSame),
  };
}

/** Returns the warnings for the reasons that remain, each code once. */
export function endWarnings({ incompleteReasons }: ScanVerdict): Warning[] {
  const all = incompleteReasons.map(({ code, message, hint }): Warning => ({
    code: WARNING_CODES[code],
    message,
    hint,
  }));
  return all.filter(({ code }, at) => all.findIndex((each) => each.code === code) === at);
}
