import { timestampMs } from '../../model/timestamp-text.ts';
import type { IncrementalProfile } from '../../config/profile/incremental.ts';
import { readCheckpoint } from '../../database/state/checkpoints.ts';
import type { CheckpointRow } from '../../database/own-tables.ts';
import { detectDeletes } from '../deletes/detect-deletes.ts';
import { countUntimedRows, unprovedCatchUp } from '../filter/filter-evidence.ts';
import { readDoubt, scanIfDoubted, testFilter, verifyFilter } from '../filter/verify-filter.ts';
import { planScan, type ScanPlan } from '../plan.ts';
import type { RunContext } from '../run-progress.ts';
import { noteVerified, verifyEmptyListing } from '../verify-profile.ts';
import { findUnseenKeys, MAX_FETCHED_ALONE, scanUntilComplete, type WholeScan } from './scan-until-complete.ts';

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
  const warning = unprovedCatchUp(context, incremental);
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
