// Loads the pages of a listing into tables, one transaction per page with the checkpoint after it; then judges the end.
//
// The end of a scan gives reasons (`incompleteReasons`) why it may be incomplete, such as a total that was not reached. `judgeScan`
// concludes from them whether the copy is complete and whether rows that were not listed may be deleted.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { DescendingOrder, isNewestFirst } from '../../checks/filter.ts';
import { filterQuery, listingScan } from '../../checks/listing-scan.ts';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import type { CheckpointRow } from '../../database/own-tables.ts';
import { saveCheckpoint } from '../../database/state/checkpoints.ts';
import { saveCounters } from '../../database/state/runs.ts';
import { openPageLoader, type PageFacts } from '../../load/page-loader.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import type { Numbering } from '../../pagination/guards/verify-end.ts';
import { storePosition } from '../../pagination/page-styles/page-position.ts';
import { isNumbered } from '../../pagination/page-styles/page-styles.ts';
import type { IncompleteReason, Page, ScanEnd } from '../../pagination/page.ts';
import { type ScanOptions, scanPages } from '../../pagination/scan-pages.ts';
import { scanPartitions } from '../../pagination/scan-partitions.ts';
import { updatedZone } from '../../rows/columns/updated-time.ts';
import { checkpointAfter } from '../advance-checkpoint.ts';
import { candidateStatements, olderPolicy, readCandidates } from '../deletes/detect-deletes.ts';
import { continueAfterScan, cursorOfScan } from '../feed/feed-response.ts';
import { addPage, type FilterEvidence } from '../filter/filter-evidence.ts';
import type { ScanPlan } from '../plan.ts';
import type { Warning } from '../report.ts';
import { countPage, type RunContext, withPage } from '../run-progress.ts';
import { partitionsOf, resumeScan, seenStatements } from './resume-scan.ts';

/** One of the scans that `scanUntilComplete` makes. */
export interface ScanAttempt {
  plan: ScanPlan;
  /** The scan that this one repeats, and when it ended in local epoch milliseconds; null if none exists. */
  former: ScanEnd | null;
  formerEndedAt: number | null;
  /** Collects what its pages show about the filter. */
  evidence: FilterEvidence;
  /** Whether its pages are known to be numbered as the profile says. */
  numbering: Numbering;
  onPage?: (facts: PageFacts) => void;
  /** True if it supplies what a full scan has missed, which alone may move the cursor. */
  isCatchUp?: boolean;
}

/** The end of a scan, and what it proves. */
interface EndedScan {
  end: ScanEnd;
  verdict: ScanVerdict;
}

export interface LoadedScan extends EndedScan {
  checkpoint: CheckpointRow;
  /** The checkpoint that it would have if it had seen every record. */
  ifComplete: CheckpointRow;
}

/**
 * Copies the pages of one listing. The next pages are fetched while this loop works; each page becomes rows, and one
 * transaction writes the rows together with the checkpoint after the page, under the lease. A kill loses only the pages
 * that were fetched and not yet committed. Returns the finished scan; throws `SyncError` with everything up to the last
 * committed page in place.
 */
export async function loadPages(context: RunContext, attempt: ScanAttempt): Promise<LoadedScan> {
  const { clock, profile, owned, progress, watcher, signal, warehouse, run } = context;
  const { mode, checkpoint: planned } = attempt.plan;
  const scanStartedAt = planned.walk_started_at ?? timestampText(clock.now());
  const candidates = await readCandidates(context, mode, scanStartedAt);
  // In a numbered listing a record is also listed twice because others have moved; that is detected elsewhere.
  const states = isNumbered(profile.page) ? {} : { scanStartedAt };
  const loader = await openPageLoader(context, { ...olderPolicy(candidates), ...states });
  const { start, from, before } = await resumeScan(context, planned);
  const order = isNewestFirst(profile) ? new DescendingOrder(profile, start.walk_since) : null;
  const length = profile.partitions === null ? (attempt.former?.records ?? null) : null;
  const pages = await pagesOf(context, start, {
    from,
    before,
    formerEndedAt: attempt.formerEndedAt,
    // Only full scans find out what is missing from all of them.
    ...(mode === 'full' ? { numbering: attempt.numbering } : {}),
    // A repeated scan knows the length of the listing, and prefetches nothing after it.
    ...(length === null ? {} : { maxRecords: length }),
    ...(order === null ? {} : { isEnough: () => order.begin() }),
  });
  let checkpoint = start;
  let ifComplete = start;
  let ended: EndedScan | null = null;
  for await (const page of pages) {
    ended = page.end === null ? null : concludeScan(context, page, page.end, attempt);
    const verdict = ended?.verdict ?? null;
    let next = checkpoint;
    const outcome = await loader.load(page, async (facts, counted) => {
      await progress.columns.addPage(context, facts, scanStartedAt);
      addPage(attempt.evidence, facts);
      attempt.onPage?.(facts);
      next = checkpointAfterPage(context, checkpoint, page, facts, verdict?.isComplete ?? false);
      if (verdict !== null) ifComplete = checkpointAfterPage(context, checkpoint, page, facts, true);
      const isFullCopy = verdict?.isComplete === true && checkpoint.walk_mode === 'full';
      return [
        ...candidateStatements(context, candidates, facts, page.requestedAt),
        saveCheckpoint(warehouse.own, next),
        saveCounters(warehouse.own, run, withPage(progress.figures, counted, progress.meter)),
        ...seenStatements(context, { page, facts, before: checkpoint, verdict }, next),
        ...(isFullCopy ? continueAfterScan(context, cursorOfScan(context, page)) : []),
      ];
    });
    checkpoint = next;
    countPage(progress, outcome);
    watcher.page(owned.resource, page, progress.figures);
    signal.throwIfAborted();
    page.release();
    // Lets requests and signals through between prefetched pages.
    await nextTurn();
  }
  attempt.evidence.disorder ??= order?.broken ?? null;
  if (ended === null) throw new Error('a scan came to no end');
  return { checkpoint, ifComplete, ...ended };
}

/** A page that names where the changes continue is thereby the last one. */
export function concludeScan(
  context: RunContext,
  page: Page,
  end: ScanEnd,
  { former, isCatchUp = false }: { former: ScanEnd | null; isCatchUp?: boolean },
): EndedScan {
  const isNamed = cursorOfScan(context, page) !== null;
  const shown = isNamed
    ? { ...end, incompleteReasons: end.incompleteReasons.filter(({ code }) => code !== 'unproved') }
    : end;
  const verdict = judgeScan(shown, context.profile, former);
  return { end: shown, verdict: isCatchUp ? { ...verdict, isComplete: false } : verdict };
}

function checkpointAfterPage(
  { profile, scrub, clock }: RunContext,
  before: CheckpointRow,
  { next, total, fullPageSize, repeatedRecords, serverDate }: Page,
  facts: PageFacts,
  isComplete: boolean,
): CheckpointRow {
  // A position with a secret is not stored: the scan then begins again if it is interrupted.
  const position = next && storePosition(next, profile.query, scrub);
  const counted = { total, fullPageSize, repeatedRecords, serverDate, isComplete, zone: updatedZone(profile) };
  const passed = { ...facts, ...counted, next: position, isLast: next === null };
  return checkpointAfter(before, passed, clock.now());
}

/** The pages of the listing, or of all listings of a partitioned resource. */
export async function pagesOf(
  context: RunContext,
  start: CheckpointRow,
  more: Partial<ScanOptions>,
): Promise<AsyncIterable<Page>> {
  const { profile, runAhead } = context;
  const { kept_size: fullPageSize, walk_mode: mode } = start;
  const filter = filterQuery(profile, start.walk_since);
  const options: ScanOptions = {
    ...listingScan(context, mode === 'incremental' ? 'incremental' : 'backfill', filter),
    pagesBefore: start.walk_pages,
    // The page size that earlier scans observed; nothing if they requested another one.
    ...(fullPageSize === null ? {} : { fullPageSize: fullPageSize <= profile.page.size ? fullPageSize : 0 }),
    runAhead: isNewestFirst(profile) && mode === 'incremental' ? 0 : runAhead,
    ...more,
  };
  if (profile.partitions === null) return scanPages(options);
  return scanPartitions(options, profile.partitions, await partitionsOf(context, profile.partitions, start));
}

/** Conclusions from the end of a scan. */
export interface ScanVerdict {
  /** True if the scan saw every record, or the profile accepts that nothing shows it. */
  isComplete: boolean;
  /** True if records that the scan has not seen become delete candidates. */
  allowsDeletes: boolean;
  /** The reasons why the scan may be incomplete that remain to be reported. */
  incompleteReasons: readonly IncompleteReason[];
  /** True if records that changed meanwhile may be missing, which the filter or the feed lists. */
  needsCatchUp: boolean;
  /** True if it proves nothing because pages came out of a cache. */
  isCached: boolean;
  /** True if another scan may prove what this one did not. */
  mayRepeat: boolean;
}

/** Reasons that come from movement, which may be over when the listing is scanned again. */
const BY_MOVEMENT: ReadonlySet<IncompleteReason['code']> = new Set(['slipped', 'entered', 'unwatched']);
/** Evidence that a record may be on no page that was read, so that its absence says nothing. */
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

/** Concludes from the end of a scan what is known of its records. `former`: the scan that this one repeats. Pure. */
export function judgeScan(
  end: ScanEnd,
  { accept, incremental, feed }: ResourceProfile,
  former: ScanEnd | null,
): ScanVerdict {
  const isSame = former !== null && former.keysHash === end.keysHash;
  const codes = new Set(end.incompleteReasons.map(({ code }) => code));
  // A feed lists what was created while the scan ran.
  const isGrowthFed = feed !== null && end.shortfall?.isGrowth === true;
  // If a repeated scan sees the same, no change has moved the records: their order differs from page to page.
  const isMovement = codes.has('entered') && !codes.has('slipped') && !isSame;
  const isListedLater = isMovement && (incremental !== null || feed !== null);
  const open = end.incompleteReasons.filter(({ code }) => {
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
      !isCached &&
      end.incompleteReasons.every(({ code }) => !FORBIDS_DELETES.has(code)) &&
      shown.every(() => isAccepted),
    // A missing total says by itself that records are missing, whatever moved.
    incompleteReasons: isShort ? open.filter(({ code }) => !BY_MOVEMENT.has(code)) : open,
    needsCatchUp: isListedLater || isGrowthFed,
    isCached,
    mayRepeat: isCached || (hasMoved && !isAccepted) || (isShort && !isSame),
  };
}

/** The warnings of a run whose scan ended so. */
export function endWarnings({ incompleteReasons }: ScanVerdict): Warning[] {
  const all = incompleteReasons.map(({ code, message, hint }): Warning => ({
    code: WARNING_CODES[code],
    message,
    hint,
  }));
  return all.filter(({ code }, at) => all.findIndex((each) => each.code === code) === at);
}
