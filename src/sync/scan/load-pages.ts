// Loads the pages of a listing into tables: the loop in which every scan copies records. Each page is one transaction, with
// its rows and the checkpoint after it, so a killed process loses only pages that were fetched and not yet committed.
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { CompiledQuery } from 'kysely';
import { DescendingOrder, isNewestFirst } from '../../checks/filter.ts';
import { listingScan } from '../../checks/listing-scan.ts';
import { filterQuery } from '../../pagination/requests/filter-query.ts';
import type { CheckpointRow } from '../../database/own-tables.ts';
import { deleteSeenPages, readSeenPages, saveCheckpoint, saveSeenPage } from '../../database/state/checkpoints.ts';
import { saveCounters } from '../../database/state/runs.ts';
import { resolveUnseenRejects } from '../../database/state/stored-rows.ts';
import { openPageLoader, type PageFacts, type PageOutcome } from '../../load/page-loader.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import type { EarlierPage, EarlierPages } from '../../pagination/guards/pagination-state.ts';
import type { Numbering } from '../../pagination/guards/verify-end.ts';
import { loadPosition, type PagePosition, storePosition } from '../../pagination/page-styles/page-position.ts';
import { isNumbered } from '../../pagination/page-styles/page-styles.ts';
import type { Page, ScanEnd } from '../../pagination/page.ts';
import { type ScanOptions, scanPages } from '../../pagination/scan-pages.ts';
import { scanPartitions } from '../../pagination/scan-partitions.ts';
import { updatedZone } from '../../rows/columns/updated-time.ts';
import { checkpointAfter, SEVERAL_CREDENTIALS } from '../advance-checkpoint.ts';
import { candidateStatements, olderPolicy, readCandidates } from '../deletes/detect-deletes.ts';
import { continueAfterScan, cursorOfScan } from '../feed/feed-response.ts';
import { addPage, type FilterEvidence } from '../filter/filter-evidence.ts';
import { type ScanPlan, startScan } from '../plan.ts';
import type { ResourceContext } from '../resource-context.ts';
import { countPage, type RunContext, withPage } from '../run-progress.ts';
import { concludeScan, type EndedScan } from './judge-scan.ts';
import { listPartitions } from './list-partitions.ts';

/** One of the scans that `scanUntilComplete` makes. */
export interface ScanAttempt {
  plan: ScanPlan;
  /** The scan that this one repeats, and when that ended in local epoch milliseconds; null if it repeats none. */
  former: ScanEnd | null;
  formerEndedAt: number | null;
  /** Collects what the pages show about the service's filter for changes. */
  evidence: FilterEvidence;
  /** Whether it is verified that pages are numbered as the profile says. */
  numbering: Numbering;
  onPage?: (facts: PageFacts) => void;
  /** True if it only supplies what a full scan has missed: then the full scan moves the cursor. */
  isCatchUp?: boolean;
}

export interface LoadedScan extends EndedScan {
  checkpoint: CheckpointRow;
  /** What the checkpoint would be if the scan had seen every record. */
  ifComplete: CheckpointRow;
}

/**
 * Copies the pages of one listing, from the position of the planned checkpoint to the end. The next pages are fetched
 * while this loop works. Throws `SyncError` with everything up to the last committed page in place.
 */
export async function loadPages(context: RunContext, attempt: ScanAttempt): Promise<LoadedScan> {
  const { clock, profile, owned, progress, watcher, signal, warehouse, run } = context;
  const { mode, checkpoint: planned } = attempt.plan;
  const scanStartedAt = planned.walk_started_at ?? timestampText(clock.now());
  const candidates = await readCandidates(context, mode, scanStartedAt);
  // Two states of one record in a scan are reported; not for numbered pages, which list a record again if it has moved.
  const reportsStates = isNumbered(profile.page) ? {} : { scanStartedAt };
  const loader = await openPageLoader(context, { ...olderPolicy(candidates), ...reportsStates });
  const { start, from, before } = await resumeScan(context, planned);
  const order = isNewestFirst(profile) ? new DescendingOrder(profile, start.walk_since) : null;
  const knownLength = profile.partitions === null ? (attempt.former?.records ?? null) : null;
  const pages = await openPages(context, start, {
    from,
    before,
    formerEndedAt: attempt.formerEndedAt,
    // Only a full scan can show that the profile numbers pages wrongly, by the records that it has missed.
    ...(mode === 'full' ? { numbering: attempt.numbering } : {}),
    // A repeated scan prefetches no pages after the known length of the listing.
    ...(knownLength === null ? {} : { maxRecords: knownLength }),
    ...(order === null ? {} : { isEnough: () => order.begin() }),
  });
  let checkpoint = start;
  let ifComplete = start;
  let ended: EndedScan | null = null;
  for await (const page of pages) {
    ended = page.end === null ? null : concludeScan(context, page, page.end, attempt);
    const verdict = ended?.verdict ?? null;
    let next = checkpoint;
    // Returns the statements that are committed together with the rows of the page.
    const statementsWith = async (facts: PageFacts, counted: PageOutcome): Promise<CompiledQuery[]> => {
      await progress.columns.addPage(context, facts, scanStartedAt);
      addPage(attempt.evidence, facts);
      attempt.onPage?.(facts);
      next = checkpointAfterPage(context, checkpoint, page, facts, verdict?.isComplete === true);
      if (verdict !== null) ifComplete = checkpointAfterPage(context, checkpoint, page, facts, true);
      const isFullCopy = verdict?.isComplete === true && checkpoint.walk_mode === 'full';
      return [
        ...candidateStatements(context, candidates, facts, page.requestedAt),
        saveCheckpoint(warehouse.own, next),
        saveCounters(warehouse.own, run, withPage(progress.figures, counted, progress.meter)),
        ...seenStatements(context, { page, facts, before: checkpoint, verdict }, next),
        ...(isFullCopy ? continueAfterScan(context, cursorOfScan(context, page)) : []),
      ];
    };
    const outcome = await loader.load(page, statementsWith);
    checkpoint = next;
    countPage(progress, outcome);
    watcher.page(owned.resource, page, progress.figures);
    signal.throwIfAborted();
    page.release();
    // Lets requests and signals through between prefetched pages.
    await nextTurn();
  }
  attempt.evidence.disorder ??= order?.broken ?? null;
  if (ended === null) throw new Error('a scan came to no end');
  return { checkpoint, ifComplete, ...ended };
}

function checkpointAfterPage(
  { profile, scrub, clock }: RunContext,
  before: CheckpointRow,
  { next, total, fullPageSize, repeatedRecords, serverDate }: Page,
  facts: PageFacts,
  isComplete: boolean,
): CheckpointRow {
  // A position that contains a secret is not stored. If such a scan is interrupted, it begins again.
  const position = next && storePosition(next, profile.query, scrub);
  const counted = { total, fullPageSize, repeatedRecords, serverDate, isComplete, zone: updatedZone(profile) };
  const passed = { ...facts, ...counted, next: position, isLast: next === null };
  return checkpointAfter(before, passed, clock.now());
}

/** Returns the pages of the listing, or of all listings of a partitioned resource; they are requested as they are read. */
export async function openPages(
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
    // The page size that earlier scans observed; 0 if they requested another one.
    ...(fullPageSize === null ? {} : { fullPageSize: fullPageSize <= profile.page.size ? fullPageSize : 0 }),
    runAhead: isNewestFirst(profile) && mode === 'incremental' ? 0 : runAhead,
    ...more,
  };
  if (profile.partitions === null) return scanPages(options);
  return scanPartitions(options, profile.partitions, await listPartitions(context, profile.partitions, start));
}

/**
 * Returns where a scan starts, and the pages that it has read before an interruption: they show whether its position is
 * still right, and count distinct records. If these pages are not stored, the scan begins again; of several listings,
 * only the one in progress does.
 */
async function resumeScan(
  context: ResourceContext,
  planned: CheckpointRow,
): Promise<{ start: CheckpointRow; from: PagePosition | null; before: EarlierPages }> {
  const { profile, clock } = context;
  const none: EarlierPages = { pages: [], hasAllPages: true, leastTotal: null };
  const { walk_position: stored, walk_mode: mode, walk_since: since } = planned;
  if (stored === null) return { start: planned, from: null, before: none };
  const restart = () => ({ start: startScan(planned, mode ?? 'full', since, clock.now()), from: null, before: none });
  // If the newest records are listed first, the scan reads only those, and records have come before its position.
  if (isNewestFirst(profile) && mode === 'incremental') return restart();
  const from = loadPosition(stored, profile.query, filterQuery(profile, since).values ?? {});
  const { listing } = from;
  const pages = await readStoredPages(context, planned, listing?.partition);
  if (listing === undefined && pages.length < planned.walk_pages) return restart();
  // An empty `url` is the beginning of a listing.
  const leastTotal = listing === undefined ? planned.walk_total : listing.leastTotal;
  if (listing === undefined || pages.length > 0 || from.url === '') {
    return { start: planned, from, before: { pages, hasAllPages: true, leastTotal } };
  }
  return { start: planned, from: { url: '', listing: { ...listing, leastTotal: null } }, before: none };
}

/** Returns the stored pages of a scan; of several listings those of `partition`. */
async function readStoredPages(
  { warehouse, profile }: ResourceContext,
  { resource, walk_started_at: startedAt, walk_since: since }: CheckpointRow,
  partition: string | undefined,
): Promise<EarlierPage[]> {
  if (startedAt === null) return [];
  const values = filterQuery(profile, since).values ?? {};
  const pages: EarlierPage[] = [];
  for await (const { ids, unkeyed, position: stored } of readSeenPages(warehouse.own, resource, startedAt)) {
    const position = stored === null ? null : loadPosition(stored, profile.query, values);
    if (position?.listing?.partition !== partition) continue;
    // Only the position of a numbered page is stored in full; the keys of other pages count too.
    pages.push({ position: position === null || position.url === '' ? null : position, keys: ids, unkeyed });
  }
  return pages;
}

interface CommittedPage {
  page: Page;
  facts: PageFacts;
  /** The checkpoint before it. */
  before: CheckpointRow;
  /** Null before the last page. */
  verdict: { isComplete: boolean; allowsDeletes: boolean } | null;
}

/** Returns the statements that store the keys of a page, and forget those of other scans and of a scan that has ended. */
function seenStatements(
  { warehouse: { own }, profile, scrub }: ResourceContext,
  { page, facts, before, verdict }: CommittedPage,
  after: CheckpointRow,
): CompiledQuery[] {
  const { resource, walk_started_at: scanStartedAt } = before;
  // Keys that an earlier scan has seen do not count for this one.
  const begun = before.walk_pages === 0 ? [deleteSeenPages(own, resource)] : [];
  if (scanStartedAt === null) return begun;
  const isDone = after.walk_mode === null;
  const isFull = before.walk_mode === 'full';
  // After a full scan, rows whose keys it has not seen are deleted. An empty listing may be an error of the service.
  const isEmpty = isDone && before.walk_records + facts.records === 0;
  const findsDeletes = isFull && verdict?.allowsDeletes !== false && mayFindDeletes(before) && !isEmpty;
  // Only a numbered page is read again by a resumed scan, to see whether the listing has moved.
  const { listing } = page.position;
  const position = page.isNumbered ? page.position : listing === undefined ? null : { url: '', listing };
  const seen = saveSeenPage(own, {
    resource,
    walk_started_at: scanStartedAt,
    page: before.walk_pages,
    unkeyed: facts.unkeyed,
    ids: page.keys,
    position: position && storePosition(position, profile.query, scrub),
  });
  const statements = findsDeletes || !isDone ? [...begun, seen] : [deleteSeenPages(own, resource)];
  if (!isFull || !isDone || verdict?.isComplete !== true || after.last_success_at === null) return statements;
  // A complete full scan has seen every record: rejects that it has not seen no longer exist.
  return [...statements, resolveUnseenRejects(own, resource, scanStartedAt, after.last_success_at)];
}

/** False for the first scan, when there are no rows, and if several credentials were used, which may see different records. */
function mayFindDeletes({ full_credential, walk_credential }: CheckpointRow): boolean {
  return full_credential !== null && walk_credential !== null && walk_credential !== SEVERAL_CREDENTIALS;
}
