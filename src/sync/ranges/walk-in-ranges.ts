import { pageIndexes, type PageRange } from '../../extract/walk-range.ts';
import { openPageLoader } from '../../load/page-loader.ts';
import { SyncError } from '../../model/errors.ts';
import { timestampMs, timestampText } from '../../model/timestamp-text.ts';
import { saveCheckpoint } from '../../state/checkpoints.ts';
import { readTables } from '../../state/column-catalog.ts';
import type { SharedTables } from '../../state/owned-resource.ts';
import { fenceRanges, forgetRanges, forgetSeenBy, putRanges, readRanges, saveRange } from '../../state/ranges.ts';
import { saveFigures } from '../../state/runs.ts';
import { forgetSeen } from '../../state/seen.ts';
import { shareTables } from '../../state/shared-tables.ts';
import type { CheckpointRow, RangeRow } from '../../warehouse/own-tables.ts';
import { firstPage, listingWalk } from '../../checks/listing-walk.ts';
import type { RunContext } from '../run-progress.ts';
import { clockAtStart } from '../cursor/move-cursor.ts';
import type { RangeCrew } from './crew.ts';
import { cutRanges } from './cut-ranges.ts';
import { readJoined, type JoinedWalk } from './join-walk.ts';
import { begunAgain, countRanges, countedBy, errorOf, newRangeProgress, progressOf } from './range-progress.ts';
import { begunCheckpoint } from './walk-one-range.ts';

/*
 * Many processes on one resource.
 *
 * A full walk of a numbered listing that tells a total is cut into ranges of pages. The process that runs the sync keeps
 * the lease of the resource and leads: it reads the first page, cuts, stores the ranges in `_sync_ranges`, offers them to
 * all processes (itself included) by the queue, and waits until all are walked. `walk-one-range.ts` is what a process
 * does with one: it owns the range by a lease of its own (`content/~3`), turns its pages into rows as any walk does, and
 * commits with each page its keys (`_sync_seen`) and the range's checkpoint (`_sync_ranges`), under that lease. One that
 * is killed or frozen is replaced after the lease's time; the next one goes on at the page behind the last that was
 * stored, proves that the place still holds as any walk does, and a frozen one that wakes up cannot write.
 *
 * Several processes write one resource then, the leader's deliveries too. So each commit holds the rows that it changes
 * and the count of changes of tables, and is refused (`page_outdated`) if either is not what the page was compared with:
 * it is compared again (`load/beside-others.ts`). Tables grow in one process at a time, under a lease of its own.
 *
 * What makes the ranges one walk (`extract/walk-range.ts`, `join-walk.ts`):
 * - within a range, everything that holds for a whole walk: neighbouring pages that moved are read again;
 * - between ranges: each reads one page more than its own, the first one of its neighbour. If both have read the same
 *   there, or what the total explains, nothing slipped through; if the listing moved otherwise it has the doubt `entered`,
 *   which a filter by time settles, as in a whole walk. If not one record is shared, both are walked again, and the
 *   neighbours are looked at again;
 * - in the whole: the ranges together have met, each record counted once, as many as the least total that any page told.
 *   A record that moves from a range to one that has been read is in neither, and missing here.
 * What that leaves open after some attempts, or a total that is never met, is no verdict: the listing is walked once in
 * one, and that walk decides (`ranges_given_up`), as do those of the next 30 days. The sweep for deletes sees the pages of all ranges as those of one walk.
 *
 * No listing is cut that gives too few pages for two ranges of `worker.range_pages`, or while fewer than two processes
 * work. Cursors and offsets, listings of parents, windows, feeds and records in parts are walked in one.
 */

/** So often ranges that do not fit together are walked again. */
const MOST_ATTEMPTS = 2;
const LOOK_MS = 200;
/** Ranges that nobody walks are asked for again so often. */
const OFFER_MS = 3_000;
const TELL_MS = 2_000;
/** A listing that was too busy for it may have become calm. */
const FORGIVEN_MS = 30 * 86_400_000;

/**
 * The full walk of a resource in ranges; null if it is to be walked in one, or has come to no proof: then `planned`, with
 * which the walk in one begins, says so from here on. Ranges of a run before this one are gone on with. Throws what stopped a range, as a walk does.
 */
export async function walkInRanges(context: RunContext, planned: CheckpointRow): Promise<JoinedWalk | null> {
  const { owned, warehouse, clock, signal, crew } = context;
  if (!warehouse.isOnNetwork) return null;
  const stored = await readRanges(warehouse.own, owned.resource);
  const isUnderWay = stored.some((row) => row.walk_started_at === planned.walk_started_at);
  const isInOne = crew === undefined || !mayBeCut(context, planned) || wasGivenUp(context, planned);
  // They are made by whoever owns the resource.
  if (isInOne) return stored.length === 0 ? null : dropped(context);
  if (!isUnderWay && !(await begin(context, planned, crew))) return dropped(context);
  const shared = await shareTables(warehouse, owned.resource, clock, signal);
  await readAnew(context, shared);
  try {
    const joined = await untilJoined(context, crew);
    return joined.isProved ? joined : await givenUp(context, planned, joined);
  } catch (error) {
    // Others go on while another process takes the lead; after an error nobody does.
    const isLeft = error instanceof SyncError && ['interrupted', 'lease_lost'].includes(error.code);
    if (!isLeft && !signal.aborted) await warehouse.apply([fenceRanges(warehouse.own, owned.resource)], owned.lease());
    throw error;
  } finally {
    await readAnew(context, null);
  }
}

/** Begins or ends writing beside others, who may have made the tables grow. */
function readAnew({ owned, warehouse }: RunContext, shared: SharedTables | null): Promise<void> {
  return owned.takeTurn(async () => {
    owned.shared = shared;
    owned.shape = await readTables(warehouse, owned.resource);
  });
}

/** Whoever still walks a range of this resource is stopped. */
async function dropped({ warehouse, owned }: RunContext): Promise<null> {
  const rows = await readRanges(warehouse.own, owned.resource);
  if (rows.length > 0) {
    const forgotten = [...forgetRanges(warehouse.own, owned.resource), forgetSeen(warehouse.own, owned.resource)];
    await warehouse.apply(forgotten, owned.lease());
  }
  return null;
}

async function givenUp(context: RunContext, planned: CheckpointRow, joined: JoinedWalk): Promise<null> {
  const { warehouse, owned, clock } = context;
  planned.ranges_given_up_at = timestampText(clock.now());
  context.progress.warnings.push({
    code: 'ranges_given_up',
    message: `the listing was walked in ${joined.ranges} ranges at once, which did not prove to be whole, so it was walked again in one`,
    hint: 'records move in it while it is read, or its total counts more than is listed: the next walks are made in one',
  });
  await warehouse.apply([saveCheckpoint(warehouse.own, planned)], owned.lease());
  return dropped(context);
}

/** Walked in one, it is read once and not twice. */
function wasGivenUp({ clock }: RunContext, { ranges_given_up_at: at }: CheckpointRow): boolean {
  return at !== null && clock.now() - timestampMs(at) < FORGIVEN_MS;
}

/** True for a full walk of a listing whose pages are named by their numbers, and that tells a total. */
function mayBeCut({ profile, runAhead }: RunContext, planned: CheckpointRow): boolean {
  const { page, partitions, parts, feed, incremental } = profile;
  const isPlain = partitions === null && !parts && feed === null && incremental?.mode !== 'newest_first';
  const isOne = page.style === 'page' && page.total !== null && page.next_page === null && runAhead > 0;
  const isWindowed = incremental !== null && incremental.window !== null;
  return isPlain && isOne && !isWindowed && planned.walk_mode === 'full' && planned.walk_position === null;
}

/** Cuts the listing and stores the ranges; false if it is not worth it. */
async function begin(context: RunContext, planned: CheckpointRow, crew: RangeCrew): Promise<boolean> {
  const { profile, warehouse, owned, run } = context;
  const hands = await crew.hands();
  if (hands < 2) return false;
  const page = await firstPage(context, 'backfill', {});
  const { size } = profile.page;
  // Pages of another size than was asked for have other indexes.
  if (page === null || page.end !== null || page.total === null || page.records.length !== size) return false;
  if (pageIndexes(listingWalk(context, 'backfill')) === null) return false;
  const ranges = cutRanges(Math.ceil(page.total / size), crew.leastPages, hands);
  if (ranges.length === 0) return false;
  // The table must be there before others write it.
  await openPageLoader(context, { acceptsOlder: false });
  const clock = clockAtStart({ serverDate: page.serverDate, updated: [] }, context.clock.now());
  const walk_started_at = planned.walk_started_at ?? timestampText(context.clock.now());
  const begun = { ...planned, walk_started_at, walk_clock: planned.walk_clock ?? clock, kept_size: size };
  const rows = ranges.map((range, index) => rowOf(begun, { range, index, runId: run.run_id, walk_started_at }));
  const { own } = warehouse;
  const { resource } = owned;
  const cleared = [...forgetRanges(own, resource), forgetSeen(own, resource)];
  await warehouse.apply([...cleared, saveCheckpoint(own, begun), putRanges(own, rows)], owned.lease());
  return true;
}

function rowOf(
  begun: CheckpointRow,
  { range, index, runId, walk_started_at }: { range: PageRange; index: number; runId: string; walk_started_at: string },
): RangeRow {
  return {
    resource: begun.resource,
    range: index,
    walk_started_at,
    run_id: runId,
    first_page: range.first,
    border_page: range.border,
    state: 'open',
    attempts: 0,
    position: null,
    progress: JSON.stringify(newRangeProgress(begunCheckpoint(begun))),
  };
}

/** Has the ranges walked until they fit together, or that was tried often enough. */
async function untilJoined(context: RunContext, crew: RangeCrew): Promise<JoinedWalk> {
  const { warehouse, owned } = context;
  const { own } = warehouse;
  const rows = await readRanges(own, owned.resource);
  const counted = { by: countedBy(rows.map(progressOf)) };
  // One that failed in an earlier run goes on where it was.
  const failed = rows.filter(({ state }) => state === 'failed');
  const reopened = failed.map((row) => saveRange(own, Object.assign(row, { state: 'open' })));
  if (reopened.length > 0) await warehouse.apply(reopened, owned.lease());
  for (;;) {
    const walked = await untilWalked(context, crew, counted);
    const joined = await readJoined(context, walked);
    const drifted = walked.filter((row) => joined.again.includes(row.range) && row.attempts < MOST_ATTEMPTS);
    if (drifted.length === 0 || drifted.length < joined.again.length) return joined;
    const again = drifted.map((row) => begunAgain(row, begunCheckpoint(progressOf(row).checkpoint)));
    await warehouse.apply(
      again.flatMap((row) => [forgetSeenBy(own, row), saveRange(own, row)]),
      owned.lease(),
    );
  }
}

/** Resolves with the ranges once all are walked. Throws the error of one that failed. */
async function untilWalked(
  context: RunContext,
  crew: RangeCrew,
  counted: { by: ReturnType<typeof countedBy> },
): Promise<RangeRow[]> {
  const { warehouse, owned, clock, progress, run, signal } = context;
  let [offeredAt, toldAt] = [-Infinity, -Infinity];
  for (;;) {
    signal.throwIfAborted();
    const rows = await readRanges(warehouse.own, owned.resource);
    const now = countedBy(rows.map(progressOf));
    countRanges(progress, counted.by, now);
    counted.by = now;
    const failed = rows.find(({ state }) => state === 'failed');
    if (failed !== undefined) throw errorOf(failed);
    const open = rows.filter(({ state }) => state === 'open');
    if (clock.monotonic() - toldAt >= TELL_MS || open.length === 0) {
      toldAt = clock.monotonic();
      await warehouse.apply([saveFigures(warehouse.own, run, progress.figures)], owned.lease());
    }
    if (open.length === 0) return rows;
    if (clock.monotonic() - offeredAt >= OFFER_MS) {
      offeredAt = clock.monotonic();
      await crew.offer(
        owned.resource,
        open.map(({ range }) => range),
      );
    }
    await clock.sleep(LOOK_MS, signal);
  }
}
