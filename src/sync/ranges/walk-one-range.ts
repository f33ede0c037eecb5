import { setImmediate as nextTurn } from 'node:timers/promises';
import type { CompiledQuery } from 'kysely';
import type { MetPage } from '../../extract/guards/met-page.ts';
import type { Page } from '../../extract/page.ts';
import { pageIndexes, walkRange } from '../../extract/walk-range.ts';
import { newMeter } from '../../http/client.ts';
import { openPageLoader, type PageFacts, type PageOutcome } from '../../load/page-loader.ts';
import { SyncError } from '../../model/errors.ts';
import { timestampMs } from '../../model/timestamp-text.ts';
import { updatedZone } from '../../shape/columns/updated-time.ts';
import { ownRange } from '../../state/owned-range.ts';
import { forgetSeenBy, PAGES_OF_RANGE, readRange, saveRange } from '../../state/ranges.ts';
import { readSeenPages, rememberSeen } from '../../state/seen.ts';
import type { RangeRow } from '../../warehouse/own-tables.ts';
import { checkpointAfter } from '../cursor/move-cursor.ts';
import { olderPolicy, openSuspects, suspectStatements } from '../deletes/page-suspects.ts';
import { listingWalk } from '../../checks/listing-walk.ts';
import { resourceContext, type ResourceContext, type SourceContext } from '../resource-context.ts';
import { countPage, newProgress, type RunProgress } from '../run-progress.ts';
import { positionFrom, storedPosition } from '../walk/stored-position.ts';
import { begunAgain, progressOf, stoppedBy, type RangeProgress } from './range-progress.ts';

/** A range of a resource. */
export interface RangeOfWalk {
  resource: string;
  range: number;
}

/** A budget that machines share is asked over the network before each request. */
const LEAST_AHEAD = 2;

/**
 * Walks one range of a full walk that another process, or this one, leads: pages become rows, and the range's own
 * checkpoint goes with each. What stops it is stored, for the one who leads the walk. Does nothing if nobody leads it.
 * Throws `lease_held` if another process walks the range, `lease_lost` if it was taken over, `interrupted`.
 */
export async function walkOneRange(source: SourceContext, asked: RangeOfWalk, signal: AbortSignal): Promise<void> {
  const { warehouse, clock } = source;
  const { resource, range } = asked;
  if (!(await isLed(source, resource))) return;
  const before = await readRange(warehouse.own, resource, range);
  if (before?.state !== 'open') return;
  const owned = await ownRange({ warehouse, clock, resource, range, signal, owners: source.ownedResources });
  try {
    // Whoever had it before may have gone on until a moment ago.
    const row = await readRange(warehouse.own, resource, range);
    if (row?.state !== 'open') return;
    const context = resourceContext({ ...source, runId: row.run_id }, owned, { meter: newMeter(), signal });
    await untilStopped(context, row);
  } finally {
    await owned.release(true);
  }
}

/** A walk whose leader is gone is taken up by another one, which asks for its ranges again. */
async function isLed({ warehouse }: SourceContext, resource: string): Promise<boolean> {
  const lease = await warehouse.own
    .selectFrom('_sync_leases')
    .select('expires_at')
    .where('name', '=', resource)
    .executeTakeFirst();
  return lease !== undefined && timestampMs(lease.expires_at) > (await warehouse.now());
}

/** Errors that say that this process is not to go on, whatever becomes of the range. */
const NOT_OURS: ReadonlySet<string> = new Set(['lease_held', 'lease_lost', 'interrupted']);

async function untilStopped(context: ResourceContext, row: RangeRow): Promise<void> {
  const { warehouse, owned, scrub } = context;
  const course = { row };
  try {
    await walkPages(context, course);
  } catch (error) {
    if (!(error instanceof SyncError) || NOT_OURS.has(error.code)) throw error;
    const isExpired = error.code === 'cursor_expired';
    const { checkpoint } = progressOf(course.row);
    const stopped = isExpired
      ? begunAgain(course.row, begunCheckpoint(checkpoint))
      : stoppedBy(course.row, error, scrub);
    const forgotten = isExpired ? [forgetSeenBy(warehouse.own, stopped)] : [];
    await warehouse.apply([...forgotten, saveRange(warehouse.own, stopped)], owned.lease());
    // Its place is gone: the one who leads asks for it again.
  }
}

/** The checkpoint of a range that has read nothing. */
export function begunCheckpoint(checkpoint: RangeProgress['checkpoint']): RangeProgress['checkpoint'] {
  return {
    ...checkpoint,
    walk_high_water: null,
    walk_high_key: null,
    walk_pages: 0,
    walk_records: 0,
    walk_total: null,
  };
}

async function walkPages(context: ResourceContext, course: { row: RangeRow }): Promise<void> {
  const { owned, profile, warehouse, signal, runAhead, inLine } = context;
  const { walk_started_at: walkStartedAt } = course.row;
  const suspects = await openSuspects(context, { mode: 'full', walkStartedAt });
  const loader = await openPageLoader(context, olderPolicy(suspects));
  const indexes = pageIndexes(listingWalk(context, 'backfill'));
  if (indexes === null) throw new Error(`${owned.resource} is not cut by page numbers`);
  const pages = await pagesBefore(context, course.row);
  const stored = pages.length === 0 ? null : course.row.position;
  const from = stored === null ? null : positionFrom(stored, profile.query, {});
  const counted = progressFrom(progressOf(course.row), context);
  const start = progressOf(course.row);
  const options = {
    ...listingWalk(context, 'backfill'),
    ...(from === null ? {} : { from }),
    before: { pages, records: null, leastTotal: null },
    kept: start.checkpoint.kept_size ?? profile.page.size,
    runAhead,
    inLine,
    leastAhead: LEAST_AHEAD,
  };
  const { first_page: first, border_page: border } = course.row;
  const place = { first, border };
  for await (const page of walkRange(options, indexes, place)) {
    let next = course.row;
    const outcome = await loader
      .load(page, (facts, outcome) => {
        next = rowAfter(context, course.row, { page, facts, counted: counting(counted, outcome) });
        const own = warehouse.own;
        return [
          ...suspectStatements(context, suspects, facts, page.requestedAt),
          seenBy(context, course.row, page, facts),
          saveRange(own, next),
        ];
      })
      .finally(page.release);
    page.discard();
    countPage(counted, outcome);
    course.row = next;
    signal.throwIfAborted();
    await nextTurn();
  }
}

/** The pages of the range that are stored, so that it can prove that its place still holds. */
async function pagesBefore({ warehouse, profile }: ResourceContext, row: RangeRow): Promise<MetPage[]> {
  const pages: MetPage[] = [];
  if (row.position === null) return pages;
  for await (const { page, ids, unkeyed, position } of readSeenPages(warehouse.own, row.resource, row)) {
    const whole = positionFrom(position, profile.query, {});
    const isOurs = Math.floor(page / PAGES_OF_RANGE) === row.range;
    if (isOurs && whole !== null) pages.push({ position: whole, keys: ids, unkeyed });
  }
  return pages;
}

function progressFrom({ figures, notes, shared, meter }: RangeProgress, context: ResourceContext): RunProgress {
  Object.assign(context.meter, meter);
  return { ...newProgress('full', [], context.meter), figures, notes, shared };
}

/** As it will be once the page is stored. */
function counting(counted: RunProgress, outcome: PageOutcome): RunProgress {
  const { notes, shared } = counted;
  const after = { ...counted, notes: { ...notes }, shared: { ...shared } };
  countPage(after, outcome);
  return after;
}

interface ReadPage {
  page: Page;
  facts: PageFacts;
  counted: RunProgress;
}

/** The range's row after a page. */
function rowAfter(context: ResourceContext, row: RangeRow, { page, facts, counted }: ReadPage): RangeRow {
  const { profile, scrub, clock } = context;
  const before = progressOf(row);
  const { kept, again, serverDate, total, end } = page;
  // Of the walk it is no end.
  const next = page.next ?? page.position;
  const passed = { ...facts, next, serverDate, total, kept, again, zone: updatedZone(profile) };
  const { figures, notes, shared, meter } = counted;
  const progress: RangeProgress = {
    ...before,
    checkpoint: checkpointAfter(before.checkpoint, passed, clock.now()),
    figures,
    notes,
    shared,
    meter,
    firstTotal: before.checkpoint.walk_pages === 0 ? total : before.firstTotal,
    lastTotal: total,
    serverDate: serverDate ?? before.serverDate,
    isThrough: end !== null && isThrough(context, row, page),
    doubts: end === null ? [] : end.doubts,
  };
  const position = storedPosition(next, profile.query, scrub);
  return { ...row, state: end === null ? 'open' : 'done', position, progress: JSON.stringify(progress) };
}

function isThrough(context: ResourceContext, { border_page: border }: RangeRow, page: Page): boolean {
  const index = pageIndexes(listingWalk(context, 'backfill'))?.indexOf(page.position) ?? 0;
  return border === null || index >= border;
}

function seenBy(
  { warehouse, profile, scrub }: ResourceContext,
  row: RangeRow,
  { keys, position }: Page,
  { unkeyed }: PageFacts,
): CompiledQuery {
  const { resource, range, walk_started_at } = row;
  const page = range * PAGES_OF_RANGE + progressOf(row).checkpoint.walk_pages;
  const place = storedPosition(position, profile.query, scrub);
  return rememberSeen(warehouse.own, { resource, walk_started_at, page, ids: keys, unkeyed, position: place });
}
