// Syncs one resource: reads the changes, then verifies deletes, warns, and cleans up.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { dropStatements, keysDeletedBefore } from '../database/state/stored-rows.ts';
import { maintainKeys, refreshViews } from '../load/grow-shape.ts';
import { growCalendar } from '../load/grow-views.ts';
import { timestampText } from '../model/timestamp-text.ts';
import { findGoneColumns } from './column-warnings.ts';
import { detectDeletes } from './deletes/detect-deletes.ts';
import { verifyCandidates } from './deletes/verify-deletes.ts';
import { readDeleteFeed, warnOfFeedGaps } from './feed/delete-feed.ts';
import { followFeed } from './feed/follow-feed.ts';
import type { ScanPlan } from './plan.ts';
import { syncReports } from './reports/sync-reports.ts';
import type { RunContext } from './run-progress.ts';
import { afterFullScan, scanListing } from './scan/load-pages.ts';
import { warnOfUnverified } from './verify-profile.ts';

/**
 * Syncs one resource: brings its copy up to date with the service. `scan/load-pages.ts` is the loop in which pages become
 * rows. `isFilterTrusted` is false if the plan could not rely on the service's filter. Counts and warns in
 * `context.progress`. Throws what stopped it, with everything until then in place.
 */
export async function syncResource(context: RunContext, planned: ScanPlan, isFilterTrusted: boolean): Promise<void> {
  const { owned, profile, watcher } = context;
  watcher.started(owned.resource, planned);

  owned.fixedColumns = [];
  await owned.takeTurn(() => refreshViews(context));
  await growCalendar(context);
  // A run that was killed at the end of its scan has not looked for deletes.
  const credential = await detectDeletes(context);
  const plan =
    credential === null ? planned : { ...planned, checkpoint: { ...planned.checkpoint, full_credential: credential } };

  const { feed, windows } = profile;
  if (windows !== null) await syncReports(context, plan, windows);
  else if (feed === null) await scanListing(context, plan, isFilterTrusted);
  else await followFeed(context, feed, plan, (scan) => afterFullScan(context, scan, plan.checkpoint));

  await warnOfUnverified(context);
  const unnamed = await readDeleteFeed(context);
  await verifyCandidates(context);
  await warnOfFeedGaps(context, unnamed);
  context.progress.warnings.push(...(await findGoneColumns(context, context.progress.columns)));
  await purgeDeleted(context);
  await owned.takeTurn(() => maintainKeys(context));
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
    removed = await owned.takeTurn(async () => {
      const keys = await keysDeletedBefore(warehouse, table, deletedBefore, ROWS_PER_STEP);
      const rows = { resource, table, children: [], keys };
      if (keys.length > 0) await warehouse.apply(dropStatements(warehouse, rows), owned.lease());
      return keys.length;
    });
    await nextTurn();
    signal.throwIfAborted();
  }
}
