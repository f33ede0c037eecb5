import { setImmediate as nextTurn } from 'node:timers/promises';
import { refreshViews } from '../load/evolve-tables.ts';
import { growCalendar } from '../load/grow-calendar.ts';
import { tendKeys } from '../load/tend-keys.ts';
import { timestampMs, timestampText } from '../model/timestamp-text.ts';
import { readCheckpoint } from '../database/state/checkpoints.ts';
import { dropStatements, keysDeletedBefore } from '../database/state/stored-rows.ts';
import { goneColumnWarnings } from './columns/gone-columns.ts';
import { confirmDeletes } from './deletes/confirm-deletes.ts';
import { type NewCredential, sweep } from './deletes/sweep.ts';
import { emptyListing, newCredential, unconfirmedDeletes } from './deletes/warnings.ts';
import { feedGaps, readDeleteFeed } from './feed/delete-feed.ts';
import { followFeed } from './feed/follow-feed.ts';
import { filterOf, readDoubt, unprovedCatchUp } from './filter/trusted-plan.ts';
import { scanIfDoubted, testFilter, verifyFilter, warnOfUntimed } from './filter/verify-filter.ts';
import { planWalk, type WalkPlan } from './plan.ts';
import { walkReports } from './reports/walk-reports.ts';
import type { ResourceContext } from './resource-context.ts';
import { countRecords, type RunContext } from './run-progress.ts';
import { noteVerified, verifyEmptyListing, warnOfUnverified } from './verify-profile.ts';
import { walkWhole, warnOfUnseenRows, type WholeWalk } from './walk/walk-whole.ts';

/**
 * The whole trade: how the copy of one resource becomes equal to the service again. Each step is a file of its name;
 * `walk/load-pages.ts` is the loop in which pages become rows. `isFilterTrusted` is false if the plan could not rely on
 * the service's filter. Counts and warns in `context.progress`. Throws what stopped it, with everything until then in
 * place.
 */
export async function syncResource(context: RunContext, planned: WalkPlan, isFilterTrusted: boolean): Promise<void> {
  const { owned, progress, watcher } = context;
  watcher.started(owned.resource, planned);

  owned.fixedColumns = [];
  await owned.takeTurn(() => refreshViews(context));
  await growCalendar(context);
  // A run that was killed when its walk had just ended has left this undone.
  const plan = knownUnder(planned, await sweepSeen(context));
  const { feed, windows } = context.profile;
  if (windows !== null) await walkReports(context, plan, windows);
  else if (feed === null) await walkListing(context, plan, isFilterTrusted);
  else await followFeed(context, feed, plan, (walked) => sweepAfter(context, walked, plan));

  await warnOfUnverified(context);
  const unnamed = await readDeleteFeed(context);
  const confirmed = await confirmDeletes(context, ['released', 'open'], (outcome) => countRecords(progress, outcome));
  progress.figures.deleted += confirmed.deleted;
  progress.warnings.push(...(await unconfirmedDeletes(context, confirmed)), ...(await feedGaps(context, unnamed)));
  progress.warnings.push(...(await goneColumnWarnings(context)));
  await purgeDeleted(context);
  await owned.takeTurn(() => tendKeys(context));
}

/** The listing, whole or by the service's filter, and what a filter that is not verified makes necessary. */
async function walkListing(context: RunContext, plan: WalkPlan, isFilterTrusted: boolean): Promise<void> {
  const { progress } = context;
  const instead = await scanIfDoubted(context, plan);
  const walked = instead ?? (await walkWhole(context, plan, plan.mode === 'incremental' || isFilterTrusted));

  // A filter that is not verified is replaced by a full scan.
  const isFull = instead !== null || plan.mode === 'full';
  const full = isFull ? walked : await verifyFilter(context, plan, walked);
  if (full !== null) {
    progress.mode = 'full';
    if (full.maySweep) await sweepAfter(context, full, plan);
    if (isFilterTrusted) await testFilter(context, full);
  }

  const missed = walked.isProved && isFilterTrusted ? await planCatchUp(context, plan, walked) : null;
  if (missed !== null) {
    if (walked.needsCatchUp) await warnOfUntimed(context);
    await verifyFilter(context, missed, await walkWhole(context, missed), true);
  }
  if (full?.isProved === true && !full.maySweep) await warnOfUnseenRows(context, full);
}

async function sweepSeen(context: RunContext): Promise<NewCredential | null> {
  const known = await sweep(context);
  if (known !== null) context.progress.warnings.push(newCredential(known, context.owned.resource));
  return known;
}

async function sweepAfter(context: RunContext, walked: WholeWalk, { checkpoint }: WalkPlan): Promise<void> {
  const { owned, progress, warehouse } = context;
  // A resumed scan in windows does not count what it saw before.
  const isEmpty = walked.isEmpty || progress.figures.records + checkpoint.walk_records === 0;
  const live = isEmpty ? await warehouse.count(owned.resource) : null;
  if (live !== null && live > 0) progress.warnings.push(emptyListing(live, owned.resource));
  if (live === 0) await verifyEmptyListing(context, checkpoint);
  await sweepSeen(context);
  await noteVerified(context, walked);
}

/** The plan was made before the walk of another run was swept. */
function knownUnder(plan: WalkPlan, known: NewCredential | null): WalkPlan {
  return known === null ? plan : { ...plan, checkpoint: { ...plan.checkpoint, full_credential: known.credential } };
}

/**
 * A full walk that took long, because it was interrupted or because there is much, has missed what changed meanwhile on
 * pages that it had read. If the service has a filter, these changes are fetched at once, so that `ok` means the same
 * for all. Null if the walk was quicker than the look-back of the next one, and no record moved meanwhile.
 */
async function planCatchUp(context: RunContext, plan: WalkPlan, { needsCatchUp }: WholeWalk): Promise<WalkPlan | null> {
  const { owned, profile, credential, clock, warehouse } = context;
  const { resource } = owned;
  const begun = plan.checkpoint.walk_started_at;
  const now = clock.now();
  if (plan.mode !== 'full' || profile.incremental === null || begun === null) return null;
  if (!needsCatchUp && now - timestampMs(begun) <= profile.incremental.lookback) return null;
  const stored = await readCheckpoint(warehouse.own, resource);
  if (stored !== null && readDoubt(stored, profile.incremental) !== null) {
    context.progress.warnings.push(unprovedCatchUp(filterOf(context, profile.incremental)));
    return null;
  }
  const asked = { command: 'sync', resource, profile, stored, credential, now } as const;
  const next = planWalk({ ...asked, restart: false, interrupted: null });
  return next.mode === 'incremental' ? next : null;
}

const DAY_MS = 86_400_000;
/** Rows per transaction: done in a few milliseconds, so that readers and other writers get their turn. */
const ROWS_PER_STEP = 200;

/**
 * Removes rows that were deleted longer ago than `deletes.keep_days`, with all their versions; null keeps them for
 * ever. Stops between two steps when aborted.
 */
async function purgeDeleted({ warehouse, owned, clock, deletes, signal }: ResourceContext): Promise<void> {
  const { resource } = owned;
  const table = owned.shape?.tables[0];
  if (deletes.keep_days === null || table === undefined) return;
  const deletedBefore = timestampText(clock.now() - deletes.keep_days * DAY_MS);
  for (let removed = ROWS_PER_STEP; removed === ROWS_PER_STEP;) {
    removed = await owned.takeTurn(async () => {
      const keys = await keysDeletedBefore(warehouse, table, deletedBefore, ROWS_PER_STEP);
      const gone = { resource, table, children: [], keys };
      if (keys.length > 0) await warehouse.apply(dropStatements(warehouse, gone), owned.lease());
      return keys.length;
    });
    await nextTurn();
    signal.throwIfAborted();
  }
}
