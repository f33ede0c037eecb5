import { setImmediate as nextTurn } from 'node:timers/promises';
import { isNewestFirst, orderOf } from '../../checks/filter.ts';
import { filterQuery, listingWalk } from '../../checks/listing-walk.ts';
import type { CheckpointRow } from '../../database/own-tables.ts';
import { saveCheckpoint } from '../../database/state/checkpoints.ts';
import { saveFigures } from '../../database/state/runs.ts';
import { openPageLoader, type PageFacts } from '../../load/page-loader.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import type { Numbering } from '../../pagination/guards/verify-end.ts';
import { isNumbered } from '../../pagination/page-styles/page-styles.ts';
import type { Page, WalkEnd } from '../../pagination/page.ts';
import { partitionedWalk } from '../../pagination/partitioned-walk.ts';
import { walk, type WalkOptions } from '../../pagination/walk.ts';
import { updatedZone } from '../../rows/columns/updated-time.ts';
import { candidateStatements, olderPolicy, readCandidates } from '../deletes/detect-deletes.ts';
import { continueAfterScan, cursorOfScan } from '../feed/feed-response.ts';
import { addPage, type FilterEvidence } from '../filter/filter-evidence.ts';
import { checkpointAfter } from '../move-cursor.ts';
import type { WalkPlan } from '../plan.ts';
import { countPage, type RunContext, withPage } from '../run-progress.ts';
import { proveWalk, type WalkProof } from './prove-walk.ts';
import { partitionsOf, positionFrom, resumeWalk, seenStatements, storedPosition } from './stored-walk.ts';

/** One of the scans that `walkWhole` makes. */
export interface OneWalk {
  plan: WalkPlan;
  /** The scan that this one repeats, and when it ended in local epoch milliseconds; null if none exists. */
  former: WalkEnd | null;
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
interface EndedWalk {
  end: WalkEnd;
  proof: WalkProof;
}

/** A scan that came to its end. */
export interface LoadedWalk extends EndedWalk {
  checkpoint: CheckpointRow;
  /** The checkpoint that it would have if it had seen every record. */
  ifProved: CheckpointRow;
}

/**
 * Copies the pages of one listing. The next pages are fetched while this loop works; each page becomes rows, and one
 * transaction writes the rows together with the checkpoint after the page, under the lease. A kill loses only the pages
 * that were fetched and not yet committed. Returns the finished scan; throws `SyncError` with everything up to the last
 * committed page in place.
 */
export async function loadPages(context: RunContext, one: OneWalk): Promise<LoadedWalk> {
  const { clock, profile, owned, progress, watcher, signal, warehouse, run } = context;
  const { mode, checkpoint: planned } = one.plan;
  const walkStartedAt = planned.walk_started_at ?? timestampText(clock.now());
  const candidates = await readCandidates(context, mode, walkStartedAt);
  // In a numbered listing a record is also listed twice because others have moved; that is detected elsewhere.
  const states = isNumbered(profile.page) ? {} : { walkStartedAt };
  const loader = await openPageLoader(context, { ...olderPolicy(candidates), ...states });
  const { start, before } = await resumeWalk(context, planned);
  const order = orderOf(profile, start);
  const length = profile.partitions === null ? (one.former?.records ?? null) : null;
  const pages = await pagesOf(context, start, {
    before,
    formerEndedAt: one.formerEndedAt,
    // Only full scans find out what is missing from all of them.
    ...(mode === 'full' ? { numbering: one.numbering } : {}),
    // A repeated scan knows the length of the listing, and prefetches nothing after it.
    ...(length === null ? {} : { most: length }),
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
      next = checkpointAfterPage(context, checkpoint, page, facts, proof?.isProved ?? false);
      if (proof !== null) ifProved = checkpointAfterPage(context, checkpoint, page, facts, true);
      const isWholeCopy = proof?.isProved === true && checkpoint.walk_mode === 'full';
      return [
        ...candidateStatements(context, candidates, facts, page.requestedAt),
        saveCheckpoint(warehouse.own, next),
        saveFigures(warehouse.own, run, withPage(progress.figures, counted, progress.meter)),
        ...seenStatements(context, { page, facts, before: checkpoint, proof }, next),
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
  one.evidence.disorder ??= order?.broken() ?? null;
  if (ended === null) throw new Error('a scan came to no end');
  return { checkpoint, ifProved, ...ended };
}

/** A page that names where the changes continue is thereby the last one. */
export function endedBy(
  context: RunContext,
  page: Page,
  end: WalkEnd,
  { former, isCatchUp = false }: { former: WalkEnd | null; isCatchUp?: boolean },
): EndedWalk {
  const isNamed = cursorOfScan(context, page) !== null;
  const shown = isNamed ? { ...end, doubts: end.doubts.filter(({ code }) => code !== 'unproved') } : end;
  const proof = proveWalk(shown, context.profile, former);
  return { end: shown, proof: isCatchUp ? { ...proof, isProved: false } : proof };
}

function checkpointAfterPage(
  { profile, scrub, clock }: RunContext,
  before: CheckpointRow,
  { next, total, kept, again, serverDate }: Page,
  facts: PageFacts,
  isProved: boolean,
): CheckpointRow {
  const passed = { ...facts, next, total, kept, again, serverDate, isProved, zone: updatedZone(profile) };
  const after = checkpointAfter(before, passed, clock.now());
  return { ...after, walk_position: storedPosition(after.walk_position, profile.query, scrub) };
}

/** The pages of the listing, or of all listings of a partitioned resource. */
export async function pagesOf(
  context: RunContext,
  start: CheckpointRow,
  more: Partial<WalkOptions>,
): Promise<AsyncIterable<Page>> {
  const { profile, runAhead } = context;
  const { kept_size: kept, walk_mode: mode } = start;
  const filter = filterQuery(profile, start.walk_since);
  const options: WalkOptions = {
    ...listingWalk(context, mode === 'incremental' ? 'incremental' : 'backfill', filter),
    from: positionFrom(start.walk_position, profile.query, filter.values ?? {}),
    pagesBefore: start.walk_pages,
    // The page size that earlier scans observed; nothing if they requested another one.
    ...(kept === null ? {} : { kept: kept <= profile.page.size ? kept : 0 }),
    runAhead: isNewestFirst(profile) && mode === 'incremental' ? 0 : runAhead,
    ...more,
  };
  if (profile.partitions === null) return walk(options);
  return partitionedWalk(options, profile.partitions, await partitionsOf(context, profile.partitions, start));
}
