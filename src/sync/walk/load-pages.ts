import { setImmediate as nextTurn } from 'node:timers/promises';
import type { CompiledQuery } from 'kysely';
import { filterQuery, listingWalk } from '../../checks/listing-walk.ts';
import { isNewestFirst, orderOf } from '../../checks/order.ts';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import type { CheckpointRow } from '../../database/own-tables.ts';
import { saveCheckpoint } from '../../database/state/checkpoints.ts';
import { saveFigures } from '../../database/state/runs.ts';
import { openPageLoader, type PageFacts } from '../../load/page-loader.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import type { Lane, WalkMode } from '../../model/vocabulary.ts';
import type { Numbering } from '../../pagination/guards/verify-end.ts';
import { isNumbered } from '../../pagination/page-styles/page-styles.ts';
import type { Page, WalkEnd } from '../../pagination/page.ts';
import { partitionedWalk } from '../../pagination/partitioned-walk.ts';
import { walk, type WalkOptions } from '../../pagination/walk.ts';
import { updatedZone } from '../../rows/columns/updated-time.ts';
import { checkpointAfter } from '../cursor/move-cursor.ts';
import { olderPolicy, openSuspects, suspectStatements, type WalkSuspects } from '../deletes/page-suspects.ts';
import { goOnAfterWalk, walkedCursor } from '../feed/feed-answers.ts';
import { addPage, type FilterEvidence } from '../filter/trusted-plan.ts';
import type { WalkPlan } from '../plan.ts';
import { proveWalk, type WalkProof } from '../prove-walk.ts';
import { countPage, type RunContext, withPage } from '../run-progress.ts';
import { partitionsOf } from './partitions-of.ts';
import { type CommittedPage, positionFrom, resumeWalk, seenStatements, storedPosition } from './stored-walk.ts';

/** Which lane a walk's requests take: people wait for an incremental one. */
const LANES_BY_MODE: Readonly<Record<WalkMode, Lane>> = { full: 'backfill', incremental: 'incremental' };

/** One of the walks that `walkWhole` makes. */
export interface OneWalk {
  plan: WalkPlan;
  /** The scan that this one repeats; null if there is none. */
  former: WalkEnd | null;
  /** When that walk had ended, in local epoch milliseconds; null if there was none. */
  formerEndedAt: number | null;
  /** Collects what its pages show about the filter. */
  evidence: FilterEvidence;
  /** Whether its pages are known to be numbered as the profile says. */
  numbering: Numbering;
  /** Called with what each page holds. */
  onPage?: (facts: PageFacts) => void;
  /** True if it supplies what a full scan has missed, which alone may move the cursor. */
  isCatchUp?: boolean;
}

/** The end of a walk, and what it proves. */
interface EndedWalk {
  end: WalkEnd;
  proof: WalkProof;
}

/** A walk that came to its end. */
export interface LoadedWalk extends EndedWalk {
  checkpoint: CheckpointRow;
  /** The checkpoint that it would have if it had seen every record. */
  ifProved: CheckpointRow;
}

/**
 * Copies the pages of one listing. The next pages are fetched while this loop works; each page becomes rows, and one
 * transaction writes the rows together with the checkpoint after the page, under the lease. A kill loses only the pages
 * that were fetched and not yet committed. Returns the finished walk; throws `SyncError` with everything up to the last
 * committed page in place.
 */
export async function loadPages(context: RunContext, one: OneWalk): Promise<LoadedWalk> {
  const { clock, profile, owned, progress, watcher, signal } = context;
  const { mode, checkpoint: planned } = one.plan;
  const walkStartedAt = planned.walk_started_at ?? timestampText(clock.now());
  const suspects = await openSuspects(context, { mode, walkStartedAt });
  // In a numbered listing a record is also listed twice because others have moved; that is detected elsewhere.
  const states = isNumbered(profile.page) ? {} : { walkStartedAt };
  const loader = await openPageLoader(context, { ...olderPolicy(suspects), ...states });
  const { start, before } = await resumeWalk(context, planned);
  const order = orderOf(profile, start);
  const pages = await pagesOf(context, start, {
    before,
    // What is missing from every whole walk is asked for by those alone.
    ...(mode === 'full' ? { numbering: one.numbering } : {}),
    ...knownLength(profile, one),
    formerEndedAt: one.formerEndedAt,
    ...(order === null ? {} : { isEnough: order.begin }),
  });
  let checkpoint = start;
  let ifProved = start;
  let ended: EndedWalk | null = null;
  for await (const page of pages) {
    ended = page.end === null ? null : endedBy(context, page, page.end, one);
    const proof = ended?.proof ?? null;
    let next = checkpoint;
    const outcome = await loader.load(page, async (facts, counted) => {
      await progress.columns.addPage(context, facts, walkStartedAt);
      addPage(one.evidence, facts);
      one.onPage?.(facts);
      const committed = { page, facts, counted, before: checkpoint, proof };
      next = checkpointBehind(context, committed, proof?.isProved ?? false);
      if (proof !== null) ifProved = checkpointBehind(context, committed, true);
      return statementsWith(context, suspects, committed, next);
    });
    checkpoint = next;
    countPage(progress, outcome);
    watcher.page(owned.resource, page, progress.figures);
    signal.throwIfAborted();
    page.release();
    // Lets requests and signals through between pages that are already there.
    await nextTurn();
  }
  one.evidence.disorder ??= order?.broken() ?? null;
  if (ended === null) throw new Error('a walk came to no end');
  return { checkpoint, ifProved, ...ended };
}

/** A page that names where the changes go on is the last one by that. */
export function endedBy(
  context: RunContext,
  page: Page,
  end: WalkEnd,
  { former, isCatchUp = false }: Pick<OneWalk, 'former' | 'isCatchUp'>,
): EndedWalk {
  const isNamed = walkedCursor(context, page) !== null;
  const shown = isNamed ? { ...end, doubts: end.doubts.filter(({ code }) => code !== 'unproved') } : end;
  const proof = proveWalk(shown, context.profile, former);
  return { end: shown, proof: isCatchUp ? { ...proof, isProved: false } : proof };
}

function checkpointBehind(
  { profile, scrub, clock }: RunContext,
  { page, facts, before }: CommittedPage,
  isProved: boolean,
): CheckpointRow {
  const { next, total, kept, again, serverDate } = page;
  const shown = { next, total, kept, again, serverDate, isProved };
  const after = checkpointAfter(before, { ...facts, ...shown, zone: updatedZone(profile) }, clock.now());
  return { ...after, walk_position: storedPosition(after.walk_position, profile.query, scrub) };
}

/** What is committed together with the rows of a page. */
function statementsWith(
  context: RunContext,
  suspects: WalkSuspects,
  committed: CommittedPage,
  next: CheckpointRow,
): CompiledQuery[] {
  const { warehouse, run, progress } = context;
  const { page, facts, counted, before, proof } = committed;
  const isWholeCopy = proof?.isProved === true && before.walk_mode === 'full';
  return [
    ...suspectStatements(context, suspects, facts, page.requestedAt),
    saveCheckpoint(warehouse.own, next),
    saveFigures(warehouse.own, run, withPage(progress.figures, counted, progress.meter)),
    ...seenStatements(context, committed, next),
    ...(isWholeCopy ? goOnAfterWalk(context, walkedCursor(context, page)) : []),
  ];
}

/** A walk that reads the same again has seen where the listing ends: behind that nothing is asked for ahead. */
function knownLength({ partitions }: ResourceProfile, { former }: OneWalk): Pick<WalkOptions, 'most'> {
  const records = former?.records ?? null;
  return records === null || partitions !== null ? {} : { most: records };
}

/** The pages of the listing, or of all its listings. */
export async function pagesOf(
  context: RunContext,
  start: CheckpointRow,
  more: Pick<WalkOptions, 'before' | 'isEnough' | 'numbering' | 'most' | 'formerEndedAt'>,
): Promise<AsyncIterable<Page>> {
  const options = { ...walkOptions(context, start), ...more };
  const { partitions } = context.profile;
  if (partitions === null) return walk(options);
  return partitionedWalk(options, partitions, await partitionsOf(context, partitions, start));
}

function walkOptions(context: RunContext, start: CheckpointRow): WalkOptions {
  const { profile, runAhead } = context;
  const { kept_size: kept } = start;
  return {
    ...listingWalk(context, LANES_BY_MODE[start.walk_mode ?? 'full'], filterQuery(profile, start.walk_since)),
    from: positionFrom(start.walk_position, profile.query, filterQuery(profile, start.walk_since).values ?? {}),
    pagesBefore: start.walk_pages,
    // The page size that earlier walks observed; nothing if they asked for another one.
    ...(kept === null ? {} : { kept: kept <= profile.page.size ? kept : 0 }),
    runAhead: isNewestFirst(profile) && start.walk_mode === 'incremental' ? 0 : runAhead,
  };
}
