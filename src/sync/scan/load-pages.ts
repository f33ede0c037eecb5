import { setImmediate as nextTurn } from 'node:timers/promises';
import { DescendingOrder, isNewestFirst } from '../../checks/filter.ts';
import { filterQuery, listingScan } from '../../checks/listing-scan.ts';
import type { IncrementalProfile } from '../../config/profile/incremental.ts';
import type { CheckpointRow } from '../../database/own-tables.ts';
import { readCheckpoint, saveCheckpoint } from '../../database/state/checkpoints.ts';
import { saveCounters } from '../../database/state/runs.ts';
import { openPageLoader, type PageFacts } from '../../load/page-loader.ts';
import { timestampMs, timestampText } from '../../model/timestamp-text.ts';
import type { Numbering } from '../../pagination/guards/verify-end.ts';
import { storePosition } from '../../pagination/page-styles/page-position.ts';
import { isNumbered } from '../../pagination/page-styles/page-styles.ts';
import type { Page, ScanEnd } from '../../pagination/page.ts';
import { type ScanOptions, scanPages } from '../../pagination/scan-pages.ts';
import { scanPartitions } from '../../pagination/scan-partitions.ts';
import { updatedZone } from '../../rows/columns/updated-time.ts';
import { checkpointAfter } from '../advance-checkpoint.ts';
import { candidateStatements, detectDeletes, olderPolicy, readCandidates } from '../deletes/detect-deletes.ts';
import { continueAfterScan, cursorOfScan } from '../feed/feed-response.ts';
import { addPage, catchUpWarning, countUntimedRows, type FilterEvidence } from '../filter/filter-evidence.ts';
import { readDoubt, scanIfDoubted, testFilter, verifyFilter } from '../filter/verify-filter.ts';
import { planScan, type ScanPlan } from '../plan.ts';
import { countPage, type RunContext, withPage } from '../run-progress.ts';
import { noteVerified, verifyEmptyListing } from '../verify-profile.ts';
import { partitionsOf, resumeScan, seenStatements } from './resume-scan.ts';
import { findUnseenKeys, judgeScan, MAX_FETCHED_ALONE, scanUntilComplete, type ScanVerdict, type WholeScan } from './scan-until-complete.ts';

// Loads the pages of a listing into tables: one transaction per page, with the checkpoint after it.

/** One of the scans that `scanUntilComplete` makes. */
export interface OneScan {
  plan: ScanPlan;
  /** The scan that this one repeats, and when it ended in local epoch milliseconds; null if none exists. */
  former: ScanEnd | null;
  formerEndedAt: number | null;
  /** Collects what its pages show about the filter. */
  evidence: FilterEvidence;
  /** Whether its pages are known to be numbered as the profile says. */
  numbering: Numbering;
  /** Called with the contents of each page. */
  onPage?: (facts: PageFacts) => void;
  /** True if it supplies what a full scan has missed, which alone may move the cursor. */
  isCatchUp?: boolean;
}

/** The end of a scan, and what it proves. */
interface EndedScan {
  end: ScanEnd;
  verdict: ScanVerdict;
}

/** A scan that came to its end. */
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
export async function loadPages(context: RunContext, one: OneScan): Promise<LoadedScan> {
  const { clock, profile, owned, progress, watcher, signal, warehouse, run } = context;
  const { mode, checkpoint: planned } = one.plan;
  const scanStartedAt = planned.walk_started_at ?? timestampText(clock.now());
  const candidates = await readCandidates(context, mode, scanStartedAt);
  // In a numbered listing a record is also listed twice because others have moved; that is detected elsewhere.
  const states = isNumbered(profile.page) ? {} : { scanStartedAt };
  const loader = await openPageLoader(context, { ...olderPolicy(candidates), ...states });
  const { start, from, before } = await resumeScan(context, planned);
  const order = isNewestFirst(profile) ? new DescendingOrder(profile, start.walk_since) : null;
  const length = profile.partitions === null ? (one.former?.records ?? null) : null;
  const pages = await pagesOf(context, start, {
    from,
    before,
    formerEndedAt: one.formerEndedAt,
    // Only full scans find out what is missing from all of them.
    ...(mode === 'full' ? { numbering: one.numbering } : {}),
    // A repeated scan knows the length of the listing, and prefetches nothing after it.
    ...(length === null ? {} : { most: length }),
    ...(order === null ? {} : { isEnough: () => order.begin() }),
  });
  let checkpoint = start;
  let ifComplete = start;
  let ended: EndedScan | null = null;
  for await (const page of pages) {
    ended = page.end === null ? null : endedBy(context, page, page.end, one);
    const verdict = ended?.verdict ?? null;
    let next = checkpoint;
    const outcome = await loader.load(page, async (facts, counted) => {
      await progress.columns.addPage(context, facts, scanStartedAt);
      addPage(one.evidence, facts);
      one.onPage?.(facts);
      next = checkpointAfterPage(context, checkpoint, page, facts, verdict?.isComplete ?? false);
      if (verdict !== null) ifComplete = checkpointAfterPage(context, checkpoint, page, facts, true);
      const isWholeCopy = verdict?.isComplete === true && checkpoint.walk_mode === 'full';
      return [
        ...candidateStatements(context, candidates, facts, page.requestedAt),
        saveCheckpoint(warehouse.own, next),
        saveCounters(warehouse.own, run, withPage(progress.figures, counted, progress.meter)),
        ...seenStatements(context, { page, facts, before: checkpoint, verdict }, next),
        ...(isWholeCopy ? continueAfterScan(context, cursorOfScan(context, page)) : []),
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
  one.evidence.disorder ??= order?.broken ?? null;
  if (ended === null) throw new Error('a scan came to no end');
  return { checkpoint, ifComplete, ...ended };
}

/** A page that names where the changes continue is thereby the last one. */
export function endedBy(
  context: RunContext,
  page: Page,
  end: ScanEnd,
  { former, isCatchUp = false }: { former: ScanEnd | null; isCatchUp?: boolean },
): EndedScan {
  const isNamed = cursorOfScan(context, page) !== null;
  const shown = isNamed ? { ...end, doubts: end.doubts.filter(({ code }) => code !== 'unproved') } : end;
  const verdict = judgeScan(shown, context.profile, former);
  return { end: shown, verdict: isCatchUp ? { ...verdict, isComplete: false } : verdict };
}

function checkpointAfterPage(
  { profile, scrub, clock }: RunContext,
  before: CheckpointRow,
  { next, total, fullPageSize, again, serverDate }: Page,
  facts: PageFacts,
  isComplete: boolean,
): CheckpointRow {
  // A position with a secret is not stored: the scan then begins again if it is interrupted.
  const position = next && storePosition(next, profile.query, scrub);
  const counted = { total, fullPageSize, again, serverDate, isComplete, zone: updatedZone(profile) };
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

/**
 * Scans the listing, fully or by the service's filter. A filter that is not verified is replaced by a full scan; after a
 * full scan that took long, the filter supplies what changed meanwhile.
 */
export async function scanListing(context: RunContext, plan: ScanPlan, isFilterTrusted: boolean): Promise<void> {
  const { progress, profile } = context;
  const instead = await scanIfDoubted(context, plan);
  const scan = instead ?? (await scanUntilComplete(context, plan, plan.mode === 'incremental' || isFilterTrusted));
  const isFull = instead !== null || plan.mode === 'full';
  const full = isFull ? scan : await verifyFilter(context, plan, scan);
  if (full !== null) {
    progress.mode = 'full';
    if (full.allowsDeletes) await afterFullScan(context, full, plan.checkpoint);
    if (isFilterTrusted) await testFilter(context, full);
  }
  const { incremental } = profile;
  if (incremental !== null && scan.isComplete && isFilterTrusted && plan.mode === 'full') {
    const missed = await planCatchUp(context, plan, incremental, scan.needsCatchUp);
    if (missed !== null) await verifyFilter(context, missed, await scanUntilComplete(context, missed), true);
  }
  if (full?.isComplete === true && !full.allowsDeletes) await warnOfUnseenRows(context, full);
}

/** After a full scan that may be compared with the copy; `before` is the checkpoint from before the scan. */
export async function afterFullScan(context: RunContext, scan: WholeScan, before: CheckpointRow): Promise<void> {
  const { owned, progress, warehouse } = context;
  // A resumed scan of reports does not count what it saw before.
  const isEmpty = scan.end.records === 0 || progress.figures.records + before.walk_records === 0;
  const live = isEmpty ? await warehouse.rows.count(owned.resource) : null;
  if (live !== null && live > 0) {
    progress.warnings.push({
      code: 'empty_listing',
      message: `the listing is empty, and ${live} rows stay live: an empty listing proves nothing`,
      hint: `check what the credential may see; if really all of it is gone: content-sync backfill ${owned.resource} --restart`,
    });
  }
  if (live === 0) await verifyEmptyListing(context, before);
  await detectDeletes(context);
  await noteVerified(context, scan);
}

/**
 * The plan to request what changed during a full scan on pages that it had read by then. Null if the scan was quicker
 * than the look-back of the next one and no record moved meanwhile, or if the filter is not trusted.
 */
async function planCatchUp(
  context: RunContext,
  { checkpoint }: ScanPlan,
  incremental: IncrementalProfile,
  needsCatchUp: boolean,
): Promise<ScanPlan | null> {
  const { owned, profile, credential, clock, warehouse, progress } = context;
  const { resource } = owned;
  const begun = checkpoint.walk_started_at;
  const now = clock.now();
  if (begun === null || (!needsCatchUp && now - timestampMs(begun) <= incremental.lookback)) return null;
  const stored = await readCheckpoint(warehouse.own, resource);
  const warning = catchUpWarning(context, incremental);
  if (stored !== null && readDoubt(stored, incremental) !== null) {
    progress.warnings.push(warning);
    return null;
  }
  const input = { command: 'sync', resource, profile, stored, credential, now } as const;
  const next = planScan({ ...input, restart: false, interrupted: null });
  if (next.mode !== 'incremental') return null;
  // The filter never lists records without a time of change, of which one may have moved.
  if (needsCatchUp && (await countUntimedRows(context)) > 0) progress.warnings.push(warning);
  return next;
}

/** After a complete scan that allows no delete: warns of live rows that neither it nor the filter listed. */
async function warnOfUnseenRows(context: RunContext, { end, startedAt }: WholeScan): Promise<void> {
  const table = context.owned.shape?.tables[0];
  const { warnings } = context.progress;
  if (table === undefined || warnings.some(({ code }) => code === 'listing_moved')) return;
  const rows = await findUnseenKeys(context, table, end.hasSeen, startedAt);
  if (rows.length === 0) return;
  const count = rows.length > MAX_FETCHED_ALONE ? `more than ${MAX_FETCHED_ALONE}` : rows.length;
  warnings.push({
    code: 'listing_moved',
    message:
      context.profile.partitions !== null
        ? 'records moved between the pages of the scan, so it did not look for deleted records'
        : `the scan, between whose pages records moved, did not see ${count} live ${rows.length === 1 ? 'row' : 'rows'}: they may be deleted`,
    hint: 'the next full scan without movement decides; if this stays, the sort of the listing is usually not unique: add the id to it in query',
  });
}
