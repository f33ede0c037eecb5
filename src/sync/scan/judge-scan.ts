import type { Doubt, ScanEnd } from '../../pagination/page.ts';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import type { Warning } from '../report.ts';

/** Conclusions from the end of a scan. */
export interface ScanVerdict {
  /** True if the scan saw every record, or the profile accepts that nothing shows it. */
  isComplete: boolean;
  /** True if records that the scan has not seen become delete candidates. */
  allowsDeletes: boolean;
  /** The doubts that are left to be reported. */
  doubts: readonly Doubt[];
  /** True if records that changed meanwhile may be missing, which the filter or the feed lists. */
  needsCatchUp: boolean;
  /** True if it proves nothing because pages came out of a cache. */
  isCached: boolean;
  /** True if another scan may prove what this one did not. */
  mayRepeat: boolean;
}

/** Doubts that come from movement, which may be over when the listing is scanned again. */
const BY_MOVEMENT: ReadonlySet<Doubt['code']> = new Set(['slipped', 'entered', 'unwatched']);
/** Evidence that a record may be on no page that was read, so that its absence says nothing. */
const FORBIDS_DELETES: ReadonlySet<Doubt['code']> = new Set(['slipped', 'entered', 'fewer']);

const WARNING_CODES: Readonly<Record<Doubt['code'], Warning['code']>> = {
  unproved: 'end_unproved',
  fewer: 'total_not_reached',
  slipped: 'listing_moved',
  entered: 'listing_moved',
  unwatched: 'listing_moved',
  cached: 'pages_cached',
  unread: 'listing_unread',
};

/** Concludes from the end of a scan what is known of its records. `former`: the scan that this one repeats. Pure. */
export function judgeScan(
  end: ScanEnd,
  { accept, incremental, feed }: ResourceProfile,
  former: ScanEnd | null,
): ScanVerdict {
  const isSame = former !== null && former.keysHash === end.keysHash;
  const codes = new Set(end.doubts.map(({ code }) => code));
  // A feed lists what was created while the scan ran.
  const isGrowthFed = feed !== null && end.shortfall?.isGrowth === true;
  // If a repeated scan sees the same, no change has moved the records: their order differs from page to page.
  const isMovement = codes.has('entered') && !codes.has('slipped') && !isSame;
  const isListedLater = isMovement && (incremental !== null || feed !== null);
  const open = end.doubts.filter(({ code }) => {
    if (code === 'unwatched') return !isSame;
    if (code === 'fewer') return !isGrowthFed;
    return code !== 'entered' || !isListedLater;
  });
  const isAccepted = accept.includes('end');
  const isCached = open.some(({ code }) => code === 'cached') && !accept.includes('cache');
  const isRead = !codes.has('unread');
  const shown = open.filter(({ code }) => code !== 'cached' && code !== 'unread');
  const isShort = shown.some(({ code }) => code === 'fewer');
  const hasMoved = shown.some(({ code }) => BY_MOVEMENT.has(code));
  return {
    isComplete: !isCached && isRead && (shown.length === 0 || (isAccepted && !isShort)),
    // Rows of a listing that was refused count as listed, so that the others show their deletes.
    allowsDeletes:
      !isCached && end.doubts.every(({ code }) => !FORBIDS_DELETES.has(code)) && shown.every(() => isAccepted),
    // A missing total says by itself that records are missing, whatever moved.
    doubts: isShort ? open.filter(({ code }) => !BY_MOVEMENT.has(code)) : open,
    needsCatchUp: isListedLater || isGrowthFed,
    isCached,
    mayRepeat: isCached || (hasMoved && !isAccepted) || (isShort && !isSame),
  };
}

/** The warnings of a run whose scan ended so. */
export function endWarnings({ doubts }: ScanVerdict): Warning[] {
  const all = doubts.map(({ code, message, hint }): Warning => ({ code: WARNING_CODES[code], message, hint }));
  // The gravest doubt comes first.
  return all.filter(({ code }, at) => all.findIndex((each) => each.code === code) === at);
}
