import { setImmediate as nextTurn } from 'node:timers/promises';
import type { CompiledQuery } from 'kysely';
import type { WalkEnd } from '../../extract/guards/walk-end.ts';
import type { Page } from '../../extract/page.ts';
import { isNumbered } from '../../extract/page-styles/page-styles.ts';
import { partitionedWalk } from '../../extract/partitioned-walk.ts';
import { walk, type WalkOptions } from '../../extract/walk.ts';
import { walkWindows } from '../../extract/walk-windows.ts';
import type { Windows } from '../../extract/windows.ts';
import { openPageLoader } from '../../load/page-loader.ts';
import { updatedZone } from '../../shape/columns/updated-time.ts';
import { memoryUse } from '../../model/memory-use.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import type { Lane, WalkMode } from '../../model/vocabulary.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import { saveCheckpoint } from '../../state/checkpoints.ts';
import { saveFigures } from '../../state/runs.ts';
import type { CheckpointRow } from '../../warehouse/own-tables.ts';
import { checkpointAfter } from '../cursor/move-cursor.ts';
import { olderPolicy, openSuspects, suspectStatements, type WalkSuspects } from '../deletes/page-suspects.ts';
import { goOnAfterWalk, walkedCursor } from '../feed/feed-place.ts';
import { bundles } from './bundles.ts';
import { addPage, type FilterEvidence } from './filter-evidence.ts';
import { EACH_PAGE, joinedPage, smallPages, type JoinedPage } from './joined-page.ts';
import type { WalkPlan } from '../plan.ts';
import { countPage, withPage, type RunContext } from '../run-progress.ts';
import { filterQuery, listingWalk } from '../listing-walk.ts';
import { isNewestFirst, orderOf } from './newest-first.ts';
import { proveWalk, type WalkProof, type Repetition } from '../prove-walk.ts';
import { partitionsOf } from './partitions-of.ts';
import { resumeWalk } from './resume-walk.ts';
import { seenStatements, type CommittedPage } from './seen-statements.ts';
import { positionFrom, storedPosition } from './stored-position.ts';

/** Which lane a walk's requests take: people wait for an incremental one. */
const LANES_BY_MODE: Readonly<Record<WalkMode, Lane>> = { full: 'backfill', incremental: 'incremental' };

/** A budget that machines share is asked over the network before each request: that is time to hide as well. */
const LEAST_AHEAD_ON_NETWORK = 2;

/** One of the walks that `walkWhole` makes. */
export interface OneWalk {
  plan: WalkPlan;
  /** Its relation to the walk before it. */
  repetition: Repetition;
  /** Collects what its pages show about the filter. */
  evidence: FilterEvidence;
  /** Null if the listing is asked for at once. */
  windows: Windows | null;
}

/** A walk that came to its end, and what that end proves. */
export interface LoadedWalk {
  checkpoint: CheckpointRow;
  end: WalkEnd;
  proof: WalkProof;
}

/**
 * One walk: pages come out of the API, each becomes rows, and the rows and the checkpoint that says so are committed as
 * one; while a page is being written, the next one is asked for and prepared. A kill between two lines of this loop
 * costs those two pages and nothing else; of numbered ones also what is fetched ahead, less the more of them wait here.
 * Returns the finished walk; throws `SyncError` with everything up to the last committed page in place.
 */
export async function loadPages(context: RunContext, one: OneWalk): Promise<LoadedWalk> {
  const { warehouse, clock, profile, owned, progress, watcher, signal } = context;
  const { mode, checkpoint: planned } = one.plan;
  const walkStartedAt = planned.walk_started_at ?? timestampText(clock.now());
  const suspects = await openSuspects(context, { mode, walkStartedAt });
  const isFirstWalk = planned.last_success_at === null && isOneListing(profile, one.windows);
  const loader = await openPageLoader(context, olderPolicy(suspects), { isFirstWalk });
  const { start, before } = await resumeWalk(context, planned, one.windows !== null);
  const order = orderOf(profile, start);
  let checkpoint = start;
  const last: { ended: Omit<LoadedWalk, 'checkpoint'> | null } = { ended: null };
  const load = async (page: JoinedPage): Promise<void> => {
    let next = checkpoint;
    if (page.end !== null) last.ended = endedBy(context, page, page.end, one.repetition);
    const outcome = await loader.load(page, (facts, counted) => {
      addPage(one.evidence, facts, page.parts.length);
      const committed = { page, facts, counted, before: checkpoint, proof: last.ended?.proof ?? null };
      const commit = commitOf(context, one, suspects, committed);
      next = commit.next;
      return commit.statements;
    });
    checkpoint = next;
    countPage(progress, outcome, page.parts.length);
    watcher.page(owned.resource, page, progress.figures);
    signal.throwIfAborted();
  };
  const write = (page: JoinedPage): Promise<void> => load(page).then(page.discard).finally(page.release);
  // Where pages are written in our own thread, one that is prepared meanwhile only takes memory.
  const mayOverlap = warehouse.writesAside;
  let writing = Promise.resolve();
  try {
    const stop = new AbortController();
    const more = {
      before,
      overlaps: mayOverlap,
      signal: AbortSignal.any([signal, stop.signal]),
      ...(order === null ? {} : { isEnough: order.begin }),
      // A first walk meets nothing that is stored.
      ...(loader.known === null || planned.last_success_at === null ? {} : { known: loader.known }),
    };
    const pages = await pagesOf(context, one, start, more);
    const isAhead = mayOverlap && isNumbered(profile.page);
    for await (const page of isAhead ? aheadOf(context, one, pages, stop) : joinedEach(pages)) {
      if (mayOverlap) loader.prepare(page);
      await writing;
      writing = write(page);
      // An error of it is thrown at the next page, or at the end.
      writing.catch(() => undefined);
      if (!mayOverlap) await writing;
      // Lets requests and signals through between pages that are there already.
      await nextTurn();
    }
  } finally {
    await writing;
  }
  one.evidence.disorder ??= order?.broken() ?? null;
  if (last.ended === null) throw new Error('a walk came to no end');
  return { checkpoint, ...last.ended };
}

/**
 * Pages that are made while others are prepared and written, so that neither this thread nor the one that writes waits
 * because of one that takes longer; small ones that have come meanwhile are joined. Not of a listing whose pages name the
 * next one: there a kill would cost more pages.
 */
async function* aheadOf(
  { profile, runAhead }: RunContext,
  { windows }: OneWalk,
  pages: AsyncIterable<Page>,
  stop: AbortController,
): AsyncGenerator<JoinedPage> {
  const bundling = isOneListing(profile, windows) && memoryUse() !== 'low' ? smallPages(runAhead) : EACH_PAGE;
  for await (const parts of bundles(pages, bundling, () => stop.abort())) yield joinedPage(parts);
}

/** True if no page of the walk is put together from several, and none is in another listing than the one before. */
function isOneListing({ partitions, parts }: ResourceProfile, windows: Windows | null): boolean {
  return partitions === null && windows === null && !parts;
}

async function* joinedEach(pages: AsyncIterable<Page>): AsyncGenerator<JoinedPage> {
  for await (const page of pages) yield joinedPage([page]);
}

/** A page that names where the changes go on is the last one by that. */
export function endedBy(
  context: RunContext,
  page: Page,
  end: WalkEnd,
  repetition: Repetition,
): Omit<LoadedWalk, 'checkpoint'> {
  const isNamed = walkedCursor(context, page) !== null;
  const shown = isNamed ? { ...end, doubts: end.doubts.filter(({ code }) => code !== 'unproved') } : end;
  return { end: shown, proof: proveWalk(shown, context.profile, repetition) };
}

/** The checkpoint after a page, and the statements that belong to the page's transaction. */
function commitOf(
  context: RunContext,
  { repetition }: OneWalk,
  suspects: WalkSuspects,
  committed: CommittedPage,
): { next: CheckpointRow; statements: CompiledQuery[] } {
  const { warehouse, profile, scrub, clock, run, progress } = context;
  const { page, facts, counted, before, proof } = committed;
  const isProved = proof?.isProved ?? false;
  const { total, kept, again, serverDate, parts } = page;
  const zone = updatedZone(profile);
  const completesFull = repetition.behind !== null;
  const passed = {
    ...facts,
    next: page.next,
    serverDate,
    total,
    kept,
    again,
    isProved,
    completesFull,
    zone,
    pages: parts.length,
  };
  const after = checkpointAfter(before, passed, clock.now());
  const next = { ...after, walk_position: storedPosition(after.walk_position, profile.query, scrub) };
  const figures = withPage(progress.figures, counted, progress.meter, parts.length);
  const statements = [
    ...suspectStatements(context, suspects, facts, page.requestedAt),
    saveCheckpoint(warehouse.own, next),
    saveFigures(warehouse.own, run, figures),
    ...seenStatements(context, committed, next),
    ...(isProved && before.walk_mode === 'full' ? goOnAfterWalk(context, walkedCursor(context, page)) : []),
  ];
  return { next, statements };
}

/** The pages of the listing, of all its windows, or of all its listings. */
export async function pagesOf(
  context: RunContext,
  { windows }: Pick<OneWalk, 'windows'>,
  start: CheckpointRow,
  more: Pick<WalkOptions, 'before' | 'overlaps' | 'isEnough' | 'known'> & Partial<Pick<WalkOptions, 'signal'>>,
): Promise<AsyncIterable<Page>> {
  const options = { ...walkOptions(context, start), ...more };
  const { partitions } = context.profile;
  if (partitions === null) return windows === null ? walk(options) : walkWindows(options, windows);
  return partitionedWalk(options, partitions, await partitionsOf(context, partitions, start));
}

function walkOptions(context: RunContext, start: CheckpointRow): WalkOptions {
  const { profile, runAhead, inLine, warehouse } = context;
  return {
    ...listingWalk(context, LANES_BY_MODE[start.walk_mode ?? 'full'], filterQuery(profile, start.walk_since)),
    from: positionFrom(start.walk_position, profile.query, filterQuery(profile, start.walk_since).values ?? {}),
    pagesBefore: start.walk_pages,
    ...keptSize(start, profile.page),
    runAhead: isNewestFirst(profile) && start.walk_mode === 'incremental' ? 0 : runAhead,
    inLine,
    leastAhead: warehouse.isOnNetwork ? LEAST_AHEAD_ON_NETWORK : 1,
  };
}

/** The page size that earlier walks observed; nothing if they asked for another one. */
function keptSize({ kept_size }: CheckpointRow, { size }: ResourceProfile['page']): { kept?: number } {
  return kept_size === null ? {} : { kept: kept_size <= size ? kept_size : 0 };
}
