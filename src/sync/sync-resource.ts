// Syncs one resource: brings its copy up to date with the service. `syncResource` shows the procedure.
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { CheckpointRow } from '../database/own-tables.ts';
import { readCheckpoint } from '../database/state/checkpoints.ts';
import { dropStatements } from '../database/state/stored-rows.ts';
import { maintainKeys, refreshViews } from '../load/grow-shape.ts';
import { growCalendar } from '../load/grow-views.ts';
import { timestampMs, timestampText } from '../model/timestamp-text.ts';
import { findLostColumns } from './column-warnings.ts';
import { detectDeletes } from './deletes/detect-deletes.ts';
import { verifyCandidates } from './deletes/verify-deletes.ts';
import { readDeleteFeed } from './feed/delete-feed.ts';
import { followFeed } from './feed/follow-feed.ts';
import { catchUpWarning, countUntimedRows } from './filter/filter-evidence.ts';
import { failedQuestion, scanIfFilterFailed, testFilter, verifyFilter } from './filter/verify-filter.ts';
import { planScan, type ScanPlan } from './plan.ts';
import { syncReports } from './reports/sync-reports.ts';
import type { RunContext } from './run-progress.ts';
import { findUnseenKeys, type FinishedScan, MAX_FETCHED_ALONE, scanUntilComplete } from './scan/scan-until-complete.ts';
import { storeVerifiedFields, verifyEmptyListing, warnOfUnverified } from './verify-profile.ts';

/**
 * Syncs one resource as planned. `scan/load-pages.ts` is the loop in which pages become rows. `isFilterTrusted` is false
 * if the plan could not rely on the service's filter (`updated_since=...`). Counts and warns in `context.progress`. If it
 * throws, the pages until then are stored, and the next run resumes.
 */
export async function syncResource(context: RunContext, planned: ScanPlan, isFilterTrusted: boolean): Promise<void> {
  const { owned, profile, watcher, progress } = context;
  watcher.started(owned.resource, planned);

  // 1. Prepare the tables and views. Columns that external views kept from widening in the last run may widen now.
  owned.fixedColumns = [];
  await owned.runAlone(() => refreshViews(context));
  await growCalendar(context);
  // A run that was killed after its last page has not compared its scan with the rows, so this run does. If that scan was made
  // with a new credential, `detectDeletes` stores it as that of the last full scan.
  const newCredential = await detectDeletes(context);
  const checkpoint =
    newCredential === null ? planned.checkpoint : { ...planned.checkpoint, full_credential: newCredential };
  const plan = { ...planned, checkpoint };

  // 2. Copy what the service lists, page by page: reports by their days, a feed of changes, or a listing.
  const { feed, windows } = profile;
  if (windows !== null) await syncReports(context, plan, windows);
  else if (feed === null) await scanListing(context, plan, isFilterTrusted);
  else await followFeed(context, feed, plan, (scan) => afterFullScan(context, scan, plan.checkpoint));
  await warnOfUnverified(context);

  // 3. Delete the rows of records that the service no longer has.
  await readDeleteFeed(context);
  await verifyCandidates(context);
  await purgeDeleted(context);

  // 4. Report what an analyst has to know of the columns, and maintain keys and indexes.
  progress.warnings.push(...(await findLostColumns(context, progress.columns)));
  await owned.runAlone(() => maintainKeys(context));
}

/** Scans the listing, fully or by the service's filter. If the filter fails, a full scan replaces it. */
async function scanListing(context: RunContext, plan: ScanPlan, isFilterTrusted: boolean): Promise<void> {
  const isFull = plan.mode === 'full';
  const full = isFull ? await scanUntilComplete(context, plan, isFilterTrusted) : await scanChanges(context, plan);
  if (full === null) return;
  context.progress.mode = 'full';
  if (full.allowsDeletes) await afterFullScan(context, full, plan.checkpoint);
  if (isFilterTrusted) await testFilter(context, full);
  if (isFull && full.isComplete && isFilterTrusted) await catchUp(context, plan, full);
  if (full.isComplete && !full.allowsDeletes) await warnOfUnseenRows(context, full);
}

/** Scans by the filter. Returns the full scan that replaced it if the filter failed before or after that; else null. */
async function scanChanges(context: RunContext, plan: ScanPlan): Promise<FinishedScan | null> {
  const full = await scanIfFilterFailed(context, plan);
  return full ?? verifyFilter(context, plan, await scanUntilComplete(context, plan));
}

/** Compares the copy with a full scan that allows it; `before` is the checkpoint from before the scan. */
async function afterFullScan(context: RunContext, scan: FinishedScan, before: CheckpointRow): Promise<void> {
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
  await storeVerifiedFields(context, scan);
}

/**
 * Requests what changed during a full scan on pages that the scan had already read. That is not needed if the scan took less
 * time than the look-back of the next one and no record moved, and not possible if the filter is not trusted.
 */
async function catchUp(
  context: RunContext,
  { checkpoint: { walk_started_at: startedAt } }: ScanPlan,
  { needsCatchUp }: FinishedScan,
): Promise<void> {
  const { owned, profile, credential, clock, warehouse, progress } = context;
  const { incremental } = profile;
  const { resource } = owned;
  const now = clock.now();
  if (incremental === null || startedAt === null) return;
  if (!needsCatchUp && now - timestampMs(startedAt) <= incremental.lookback) return;
  const stored = await readCheckpoint(warehouse.own, resource);
  const warning = catchUpWarning(context, incremental);
  if (stored !== null && failedQuestion(stored, incremental) !== null) {
    progress.warnings.push(warning);
    return;
  }
  const input = { command: 'sync', resource, profile, stored, credential, now } as const;
  const plan = planScan({ ...input, interrupted: null });
  if (plan.mode !== 'incremental') return;
  // The filter never lists records without a time of change, of which one may have moved.
  if (needsCatchUp && (await countUntimedRows(context)) > 0) progress.warnings.push(warning);
  await verifyFilter(context, plan, await scanUntilComplete(context, plan), true);
}

/** After a complete scan that allows no delete: warns of live rows that neither it nor the filter listed. */
async function warnOfUnseenRows(context: RunContext, { end, startedAt }: FinishedScan): Promise<void> {
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

const DAY_MS = 86_400_000;
/** Rows per transaction: few, so that readers and other writers are not delayed. */
const ROWS_PER_STEP = 200;

/** Removes rows that were deleted more than `deletes.keep_days` ago, with all their versions. */
async function purgeDeleted({ warehouse, owned, clock, deletes, signal }: RunContext): Promise<void> {
  const { resource } = owned;
  const table = owned.shape?.tables[0];
  if (deletes.keep_days === null || table === undefined) return;
  const deletedBefore = timestampText(clock.now() - deletes.keep_days * DAY_MS);
  for (let removed = ROWS_PER_STEP; removed === ROWS_PER_STEP;) {
    removed = await owned.runAlone(async () => {
      const keys = await warehouse.rows.keysDeletedBefore(table, deletedBefore, ROWS_PER_STEP);
      const rows = { resource, table, children: [], keys };
      if (keys.length > 0) await owned.commit(dropStatements(warehouse, rows));
      return keys.length;
    });
    await nextTurn();
    signal.throwIfAborted();
  }
}
