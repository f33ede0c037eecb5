import type { Doubt, SureRecord, WalkEnd } from '../extract/guards/walk-end.ts';
import type { ResourceProfile } from '../source/profile.ts';
import type { Warning } from './warnings.ts';

/** Conclusions from the end of a walk. */
export interface WalkProof {
  /** True if the walk met every record, or the profile accepts that nothing shows it. */
  isProved: boolean;
  /** True if records that the walk has not met may be suspected to be gone. */
  maySweep: boolean;
  /** The doubts that are left to be reported. */
  doubts: readonly Doubt[];
  /** True if records that changed meanwhile may be missing, which the filter lists. */
  needsCatchUp: boolean;
  /** True if it proves nothing because pages came out of a cache. */
  isKept: boolean;
  /** True if another walk may prove what this one did not. */
  mayRepeat: boolean;
}

/** Doubts that come from movement, which may be over when the listing is walked again. */
const BY_MOVEMENT: ReadonlySet<Doubt['code']> = new Set(['slipped', 'entered', 'unwatched']);

/** Observed evidence that the scan did not see every record: no `accept` makes up for it. */
const HIDES_RECORDS: ReadonlySet<Doubt['code']> = new Set(['slipped', 'entered', 'fewer']);

const filterFailed: Doubt = {
  code: 'slipped',
  message: 'records moved between the pages, and the filter does not list those that may have slipped past',
  hint: 'run it again when less is changed, and try the filter with: content-sync check',
};

const WARNING_CODES: Readonly<Record<Doubt['code'], Warning['code']>> = {
  unproved: 'end_unproved',
  fewer: 'total_not_reached',
  slipped: 'listing_moved',
  entered: 'listing_moved',
  unwatched: 'listing_moved',
  cached: 'pages_cached',
  unread: 'listing_unread',
};

/** A walk's relation to the one before it, which it repeats because that one proved nothing. */
export interface Repetition {
  /** That walk, if this one reads the same; else null. */
  former: WalkEnd | null;
  /** The last sure record of that walk, if this one completes it by asking for what lies behind; else null. */
  behind: SureRecord | null;
}

/** Concludes from the end of a walk what is proved about its records. Pure. */
export function proveWalk(
  end: WalkEnd,
  { accept, incremental, feed }: Pick<ResourceProfile, 'accept' | 'incremental' | 'feed'>,
  { former, behind }: Repetition,
): WalkProof {
  const { prints } = end;
  // A filter that does not list the record that it was set by lists others no better.
  const doubts = behind === null || end.met(behind.key) ? end.doubts : [...end.doubts, filterFailed];
  const isSame = former !== null && former.prints === prints;
  const needsCatchUp = (incremental !== null || feed !== null) && doubts.some(({ code }) => code === 'entered');
  const hasSlipped = doubts.some(({ code }) => code === 'slipped');
  const open = doubts.filter(({ code }) => {
    if (code === 'unwatched') return !isSame;
    // Records that came onto pages already read are listed by the filter, and are those that the total misses.
    return !needsCatchUp || hasSlipped || (code !== 'entered' && code !== 'fewer');
  });
  const isAccepted = accept.includes('end');
  const isKept = open.some(({ code }) => code === 'cached') && !accept.includes('cache');
  // Rows of a listing that was not read count as listed: other listings show their deletes.
  const isRead = !open.some(({ code }) => code === 'unread');
  const shown = open.filter(({ code }) => code !== 'cached' && code !== 'unread');
  const isShort = open.some(({ code }) => code === 'fewer');
  const hasMoved = shown.some(({ code }) => BY_MOVEMENT.has(code));
  return {
    isProved: !isKept && isRead && (shown.length === 0 || (isAccepted && !isShort)),
    // A listing whose pages moved, or that lists fewer records than its total, may have hidden live records.
    maySweep: !isKept && !doubts.some(({ code }) => HIDES_RECORDS.has(code)) && (shown.length === 0 || isAccepted),
    doubts: isAccepted ? open : open.filter(({ code }) => code !== 'fewer' || !hasMoved),
    needsCatchUp,
    isKept,
    mayRepeat: isKept || (hasMoved && !isAccepted),
  };
}

/** The warnings of a run whose walk ended so. */
export function endWarnings({ doubts }: WalkProof, { pageSize }: WalkEnd): Warning[] {
  const told = new Map(doubts.map(({ code, message, hint }) => [WARNING_CODES[code], { message, hint }]));
  const warnings = Array.from(told, ([code, { message, hint }]): Warning => ({ code, message, hint }));
  if (pageSize === null) return warnings;
  const message = `${pageSize.asked} records were asked for per page, and the largest that was not the last held ${pageSize.came}`;
  const hint =
    'set page.size in the profile to what the service gives, and page.size_param to the parameter that it reads';
  return [...warnings, { code: 'page_size_differs', message, hint }];
}
