import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Page } from '../../extract/page.ts';
import { isNumbered } from '../../extract/page-styles/page-styles.ts';
import { partitionedWalk } from '../../extract/partitioned-walk.ts';
import { walk, type WalkOptions } from '../../extract/walk.ts';
import { walkWindows } from '../../extract/walk-windows.ts';
import type { Windows } from '../../extract/windows.ts';
import { openPageLoader } from '../../load/page-loader.ts';
import { memoryUse } from '../../model/memory-use.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import type { Lane, WalkMode } from '../../model/vocabulary.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import type { SentTurn } from '../../state/turns.ts';
import type { CheckpointRow } from '../../warehouse/own-tables.ts';
import { olderPolicy, openSuspects } from '../deletes/page-suspects.ts';
import { bundles } from './bundles.ts';
import type { Numbering } from '../../extract/guards/prove-numbering.ts';
import type { FilterEvidence } from './filter-evidence.ts';
import { EACH_PAGE, joinedPage, smallPages, type JoinedPage } from './joined-page.ts';
import type { WalkPlan } from '../plan.ts';
import type { RunContext } from '../run-progress.ts';
import { filterQuery, listingWalk } from '../../checks/listing-walk.ts';
import { isNewestFirst, orderOf } from '../../checks/order.ts';
import type { Repetition } from '../prove-walk.ts';
import { partitionsOf } from './partitions-of.ts';
import { resumeWalk } from './resume-walk.ts';
import { pageSender, type EndedWalk } from './send-pages.ts';
import { positionFrom } from './stored-position.ts';

/** Which lane a walk's requests take: people wait for an incremental one. */
const LANES_BY_MODE: Readonly<Record<WalkMode, Lane>> = { full: 'backfill', incremental: 'incremental' };

/** A budget that machines share is asked over the network before each request: that is time to hide as well. */
const LEAST_AHEAD_ON_NETWORK = 2;

/** One of the walks that `walkWhole` makes. */
export interface OneWalk {
  plan: WalkPlan;
  /** Its relation to the walk before it. */
  repetition: Repetition;
  /** When that walk had ended, in local epoch milliseconds; null if there was none. */
  formerEndedAt: number | null;
  /** Collects what its pages show about the filter. */
  evidence: FilterEvidence;
  /** Whether its pages are known to be numbered as the profile says. */
  numbering: Numbering;
  /** Null if the listing is asked for at once. */
  windows: Windows | null;
}

/** A walk that came to its end. */
export interface LoadedWalk extends EndedWalk {
  checkpoint: CheckpointRow;
}

/**
 * One walk: pages come out of the API, each becomes rows, and the rows and the checkpoint that says so are committed as
 * one; while a page is being written, the next one is asked for and prepared. A kill between two lines of this loop
 * costs those two pages and nothing else; of numbered ones also what is fetched ahead, less the more of them wait here.
 * Returns the finished walk; throws `SyncError` with everything up to the last committed page in place.
 */
export async function loadPages(context: RunContext, one: OneWalk): Promise<LoadedWalk> {
  const { warehouse, clock, profile, signal } = context;
  const { mode, checkpoint: planned } = one.plan;
  const walkStartedAt = planned.walk_started_at ?? timestampText(clock.now());
  const suspects = await openSuspects(context, { mode, walkStartedAt });
  const isFirstWalk = planned.last_success_at === null && isOneListing(profile, one.windows);
  // Where pages are cut by number a record also comes again because others have moved, which is known by then.
  const known = isNumbered(profile.page) ? {} : { walkStartedAt };
  const loader = await openPageLoader(context, { ...olderPolicy(suspects), ...known }, { isFirstWalk });
  const { start, before } = await resumeWalk(context, planned, one.windows !== null);
  const order = orderOf(profile, start);
  const sender = pageSender(context, one, { loader, suspects, start });
  // Where pages are written in our own thread, one that is prepared meanwhile only takes memory.
  const mayOverlap = warehouse.writesAside;
  const writing: SentTurn<void>[] = [];
  try {
    const stop = new AbortController();
    const more = {
      before,
      // What is missing from every whole walk is asked for by those alone.
      ...(mode === 'full' ? { numbering: one.numbering } : {}),
      ...knownLength(profile, one),
      formerEndedAt: one.formerEndedAt,
      overlaps: mayOverlap,
      signal: AbortSignal.any([signal, stop.signal]),
      ...(order === null ? {} : { isEnough: order.begin }),
      // What is no first walk of one listing, and meets nothing that is stored, has all records read here.
      ...(loader.known === null || (planned.last_success_at === null && !isFirstWalk) ? {} : { known: loader.known }),
    };
    const pages = await pagesOf(context, one, start, more);
    const isAhead = mayOverlap && isNumbered(profile.page);
    for await (const page of isAhead ? aheadOf(context, one, pages, stop) : joinedEach(pages)) {
      if (mayOverlap) loader.prepare(page);
      // Where a stop came among the pages before the end, it comes before the end.
      await writing.at(-1)?.[page.end === null ? 'sent' : 'answered'];
      writing.push(sender.write(page));
      // So a kill costs no more than the page that is sent, and the one that is asked for next.
      while (writing.length > (mayOverlap ? 1 : 0)) {
        await writing[0]?.answered;
        writing.shift();
      }
      // Lets requests and signals through between pages that are there already.
      await nextTurn();
    }
  } finally {
    await allAnswered(writing);
  }
  one.evidence.disorder ??= order?.broken() ?? null;
  const { checkpoint, ended } = sender;
  if (ended === null) throw new Error('a walk came to no end');
  return { checkpoint, ...ended };
}

/** A walk that reads the same again has seen where the listing ends: behind that nothing is asked for ahead. */
function knownLength(profile: ResourceProfile, { repetition, windows }: OneWalk): Pick<WalkOptions, 'most'> {
  const records = repetition.former?.records ?? null;
  return records === null || !isOneListing(profile, windows) ? {} : { most: records };
}

/** Resolves once all have ended. Throws the error of the first one that has failed: it says why the others have. */
async function allAnswered(turns: readonly SentTurn<void>[]): Promise<void> {
  const ended = await Promise.allSettled(turns.map(({ answered }) => answered));
  for (const each of ended) if (each.status === 'rejected') throw each.reason;
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

/** The pages of the listing, of all its windows, or of all its listings. */
export async function pagesOf(
  context: RunContext,
  { windows }: Pick<OneWalk, 'windows'>,
  start: CheckpointRow,
  more: Pick<WalkOptions, 'before' | 'overlaps' | 'isEnough' | 'known' | 'numbering' | 'most' | 'formerEndedAt'> &
    Partial<Pick<WalkOptions, 'signal'>>,
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
